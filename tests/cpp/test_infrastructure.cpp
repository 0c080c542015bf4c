#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "isinglass/control.hpp"
#include "isinglass/isa.hpp"
#include "isinglass/parallel.hpp"
#include "isinglass/random.hpp"

using namespace isinglass;

namespace {
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
}

TEST(random_known_answers) {
  CHECK(random_bits(0, 0, 0, 0) == 0x41c6483eU);
  CHECK(random_bits(1, 2, 3, 4) == 0xbf27073eU);
  CHECK(random_bits(42, 7, 1000, 153) == 0x506d90b4U);
}

TEST(random_pieces_agree) {
  const SweepKey key = sweep_key(read_key(42, 7), 1000);
  for (std::uint32_t v = 0; v < 100; ++v) CHECK(random_bits(key, v) == random_bits(42, 7, 1000, v));
}

TEST(neg_log2_is_close_everywhere) {
  double worst = 0, lowest = 1e9, highest = -1e9;
  for (std::uint32_t i = 0; i < (1U << 23); ++i) {
    const std::uint32_t bits = i << 9;
    const double u = static_cast<double>((bits >> 8) | 1U) / 16777216.0;
    const double e = static_cast<double>(neg_log2_uniform(bits));
    worst = std::max(worst, std::fabs(e + std::log2(u)));
    lowest = std::min(lowest, e);
    highest = std::max(highest, e);
  }
  CHECK(worst <= 1.3e-4);
  CHECK(lowest >= -1.3e-4);
  CHECK(highest <= 24.001);
}

TEST(parallel_for_same_for_any_threads) {
  std::vector<std::uint64_t> expected;
  for (int threads : {1, 2, 7}) {
    Control control(kNoLimit);
    std::vector<std::uint64_t> out(1001);
    parallel_for(out.size(), threads, control, [&](std::size_t i) { out[i] = splitmix64(i); });
    if (expected.empty()) expected = out;
    CHECK(out == expected);
  }
}

TEST(parallel_for_rethrows_the_lowest_failure) {
  for (int threads : {1, 2, 7}) {
    Control control(kNoLimit);
    std::string what;
    try {
      parallel_for(64, threads, control, [](std::size_t i) {
        if (i % 10 == 3) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    CHECK(what == "3");
  }
}

TEST(parallel_for_from_several_threads_at_once) {
  std::array<std::atomic<int>, 4> sums{};
  std::vector<std::thread> callers;
  for (std::size_t c = 0; c < sums.size(); ++c) {
    callers.emplace_back([&sums, c] {
      for (int round = 0; round < 50; ++round) {
        Control control(kNoLimit);
        parallel_for(20, 3, control, [&](std::size_t) { ++sums[c]; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const auto& sum : sums) CHECK(sum == 1000);
}

TEST(control_stops_at_the_time_limit) {
  Control control(0.02);
  CHECK(!control.stop());
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(control.stop());
  CHECK(control.reason() == StopReason::time_limit);
}

TEST(control_asks_for_interruption_within_its_period) {
  int asked = 0;
  Control control(kNoLimit, [&] { return ++asked > 0; });
  const auto begin = Control::Clock::now();
  while (!control.stop()) {
  }
  const double seconds = std::chrono::duration<double>(Control::Clock::now() - begin).count();
  CHECK(control.reason() == StopReason::interrupted);
  CHECK(asked == 1);
  CHECK(seconds < 0.1);
}

TEST(control_callbacks_stay_on_their_thread) {
  int asked = 0;
  Control control(kNoLimit, [&] { return ++asked > 0; });
  std::thread([&] {
    const auto until = Control::Clock::now() + std::chrono::milliseconds(120);
    while (Control::Clock::now() < until) control.stop();
  }).join();
  CHECK(asked == 0);
}

TEST(isa_levels_can_be_forced_and_unknown_ones_are_refused) {
  const Level before = level();
  for (Level candidate : available_levels()) {
    force_level(name(candidate));
    CHECK(level() == candidate);
  }
  CHECK_THROWS(force_level("sse2"), std::invalid_argument);
  force_level(name(before));
}
