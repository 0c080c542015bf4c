// What tests of kernels on host emulation share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "check.hpp"
#include "host_emulation.hpp"

namespace isinglass::cuda {

/// Settings of the emulation for as long as it lives. While a barrier is left out races are not printed.
struct Emulated {
  explicit Emulated(emulation::Settings settings);
  ~Emulated();
  Emulated(const Emulated&) = delete;
  Emulated& operator=(const Emulated&) = delete;
};

/// A barrier that kernels reached, and whether a run was seen to need it.
struct Barrier {
  emulation::Site site;
  bool needed = false;
};
/// Those reached since the last call, in the order of their first use; they stay where they are.
std::vector<Barrier*> barriers_reached();

/// Whether goes_wrong() is true or does not return: a kernel without one of its barriers may do anything. Runs in a
/// process of its own; under ThreadSanitizer in this one, where the kernel ends at its first race.
bool ends_badly(const std::function<bool()>& goes_wrong);

/// run() in several orders of threads and over several patterns of memory: always `expected`. Under ThreadSanitizer a
/// kernel ends at its first race, in an error.
template <class Run, class Answer>
void check_in_any_order(Run run, const Answer& expected) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Emulated settings({.order_seed = seed, .pattern = static_cast<unsigned char>(0xa5 + seed)});
    CHECK(run() == expected);
  }
}

/// Leaves out in turn every barrier that run() reaches and that is not known to be needed. It is needed when the run
/// then ends otherwise than `expected`, in a mistake, in a race, or not at all. Returns how many barriers run()
/// reaches.
template <class Run, class Answer>
std::size_t check_every_barrier(Run run, const Answer& expected) {
  barriers_reached();
  emulation::take_most_steps();
  CHECK(run() == expected);
  const std::vector<Barrier*> barriers = barriers_reached();
  const std::size_t most_steps = 2 * emulation::take_most_steps();  // without a barrier it may go round in circles
  for (Barrier* const barrier : barriers) {
    for (std::uint64_t seed = 0; seed < 6 && !barrier->needed; ++seed) {
      const Emulated settings({.order_seed = seed, .skipped = barrier->site, .most_steps = most_steps});
      barrier->needed = ends_badly([&] { return run() != expected; });
    }
  }
  return barriers.size();
}

}  // namespace isinglass::cuda
