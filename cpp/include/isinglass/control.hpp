// How a long call is watched and stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace isinglass {

enum class StopReason { none, time_limit, interrupted };

/// Time limit, interruption and progress of one call. The solver asks `stop()` every few microseconds of work, from any
/// thread; the clock is read there, and the callbacks are called by the thread that made the Control only, at most
/// every 50 ms. So a call of microseconds pays one clock reading and no hand-off between threads.
class Control {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param time_limit   seconds, an upper bound; infinity: none
  /// @param interrupted  true when the caller wants the call to end (a pending Ctrl-C); may be empty
  /// @param progress     called with the share of the work that is done, 0 to 1; may be empty
  explicit Control(double time_limit, std::function<bool()> interrupted = {},
                   std::function<void(double)> progress = {});

  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// True once the call should end; then for ever.
  bool stop();
  void report(double share_done) { share_done_.store(share_done, std::memory_order_relaxed); }

  StopReason reason() const { return reason_.load(std::memory_order_relaxed); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  static constexpr std::chrono::milliseconds kAskEvery{50};

  Clock::time_point start_;
  Clock::time_point deadline_;
  Clock::time_point next_ask_;  // of the owner alone
  std::thread::id owner_;
  std::function<bool()> interrupted_;
  std::function<void(double)> progress_;
  std::atomic<double> share_done_{0};
  std::atomic<StopReason> reason_{StopReason::none};
};

}  // namespace isinglass
