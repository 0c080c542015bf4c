// What tests of kernels on host emulation share.
#pragma once

#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "host_emulation.hpp"

#if defined(ISINGLASS_THREAD_SANITIZER)
#define ISINGLASS_SEES_RACES true
#else
#define ISINGLASS_SEES_RACES false
#endif

namespace isinglass::cuda {

/// Races that ThreadSanitizer reported so far (0 without it). The process exits in peace, so that barriers can be left
/// out on purpose.
int races();

/// Settings of the emulation for as long as it lives.
struct Emulated {
  explicit Emulated(emulation::Settings settings) { emulation::settings() = std::move(settings); }
  ~Emulated() { emulation::settings() = {}; }
  Emulated(const Emulated&) = delete;
  Emulated& operator=(const Emulated&) = delete;
};

/// run() in several orders of threads and over several patterns of memory: always `expected`, and no race.
template <class Run, class Answer>
void check_in_any_order(Run run, const Answer& expected) {
  const int before = races();
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Emulated settings({.order_seed = seed, .pattern = static_cast<unsigned char>(0xa5 + seed)});
    CHECK(run() == expected);
  }
  CHECK(races() == before);
}

/// Every barrier that run() reaches is left out in turn: it must end otherwise than `expected`, in a mistake, or in a
/// race. Without ThreadSanitizer `by_races_alone` barriers may stay unnoticed. Returns how many barriers there are.
template <class Run, class Answer>
std::size_t check_every_barrier(Run run, const Answer& expected, std::size_t by_races_alone = 0) {
  emulation::take_barriers();
  CHECK(run() == expected);
  const std::vector<emulation::Site> sites = emulation::take_barriers();
  std::size_t unnoticed = 0;
  for (const emulation::Site& site : sites) {
    bool noticed = false;
    for (std::uint64_t seed = 0; seed < 6 && !noticed; ++seed) {
      const int before = races();
      const Emulated settings({.order_seed = seed, .skipped = site});
      try {
        noticed = run() != expected || races() != before;
      } catch (const emulation::Error&) {
        noticed = true;
      }
    }
    if (noticed) continue;
    ++unnoticed;
    if (ISINGLASS_SEES_RACES || unnoticed > by_races_alone) {
      ++failures();
      std::cerr << site.file << ':' << site.line << ": this barrier can be left out unnoticed\n";
    }
  }
  return sites.size();
}

}  // namespace isinglass::cuda
