#include "isinglass/control.hpp"

#include <utility>

namespace isinglass {

Control::Control(double time_limit, std::function<bool()> interrupted, std::function<void(double)> progress)
    : start_(Clock::now()),
      deadline_(Clock::time_point::max()),
      next_ask_(start_ + kAskEvery),
      owner_(std::this_thread::get_id()),
      interrupted_(std::move(interrupted)),
      progress_(std::move(progress)) {
  constexpr double kForEver = 1e9;  // seconds; beyond it the sum below would overflow the clock
  if (time_limit < kForEver) {
    deadline_ = start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time_limit));
  }
}

bool Control::stop() {
  if (reason() != StopReason::none) return true;
  const Clock::time_point now = Clock::now();
  if (now >= deadline_) {
    StopReason expected = StopReason::none;
    reason_.compare_exchange_strong(expected, StopReason::time_limit);
    return true;
  }
  if (std::this_thread::get_id() == owner_ && now >= next_ask_) {
    next_ask_ = now + kAskEvery;
    if (interrupted_ && interrupted_()) {
      reason_.store(StopReason::interrupted);
      return true;
    }
    if (progress_) progress_(share_done_.load(std::memory_order_relaxed));
  }
  return false;
}

}  // namespace isinglass
