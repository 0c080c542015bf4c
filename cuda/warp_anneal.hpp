// Sweeps of single flips by a warp, variable after variable as cpp/src/kernels/anneal_kernels.cpp makes them.
#pragma once

#include "cost_limit.hpp"
#include "warp_costs.hpp"

namespace isinglass::cuda {

template <class Row, unsigned kSlots>
class WarpAnneal {
 public:
  ISINGLASS_DEVICE WarpAnneal(WarpCosts<Row, kSlots>& walk, std::int64_t energy)
      : walk_(walk), energy_(energy), best_energy_(energy), best_(walk.bits()), flips_(0) {}

  /// One sweep; the best is the first of the lowest states that a sweep ended in.
  ISINGLASS_DEVICE void sweep(SweepKey key, float t2) {
    pass<false>(key, t2);
    if (energy_ < best_energy_) {
      best_energy_ = energy_;
      best_ = walk_.bits();
    }
  }

  /// Goes on from the best state, if that is lower.
  ISINGLASS_DEVICE void return_to_best() {
    if (best_energy_ < energy_) {
      energy_ = walk_.begin([&](unsigned k) { return best_word(k); });
    }
  }

  /// Flips what lowers the energy, in ascending order, until nothing does.
  ISINGLASS_DEVICE void quench() {
    while (pass<true>({0, 0}, 0)) {
    }
  }

  ISINGLASS_DEVICE std::int64_t energy() const { return energy_; }
  ISINGLASS_DEVICE std::int64_t best_energy() const { return best_energy_; }
  ISINGLASS_DEVICE std::uint32_t best_word(unsigned k) const { return ballot(best_ >> k & 1); }
  ISINGLASS_DEVICE std::uint64_t flips() const { return flips_; }
  ISINGLASS_DEVICE void restore_best(std::int64_t energy, const std::uint32_t* words) {
    best_energy_ = energy;
    best_ = 0;
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) best_ |= (words[k] >> lane_index() & 1) << k;
  }

 private:
  /// True when something flipped.
  template <bool kCold>
  ISINGLASS_DEVICE bool pass(SweepKey key, float t2) {
    const std::uint64_t before = flips_;
    const std::int32_t bound = kCold ? -1 : highest_limit(t2);
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      if (!any(walk_.cost(k) <= bound)) continue;  // no number of this temperature can accept any of them
      std::int32_t limit = bound;
      if constexpr (!kCold) limit = cost_limit(random_bits(key, kWarp * k + lane_index()), t2);
      std::uint32_t open = ballot(walk_.cost(k) <= limit);
      if (open == 0) continue;
      const std::uint32_t state = walk_.word(k);
      while (open != 0) {
        const unsigned next = lowest_bit(open);
        energy_ += shuffle(walk_.cost(k), next);
        walk_.flip(kWarp * k + next, state >> next & 1);
        ++flips_;
        open = ballot(walk_.cost(k) <= limit) & ~((2U << next) - 1);
      }
    }
    return flips_ != before;
  }

  WarpCosts<Row, kSlots>& walk_;
  std::int64_t energy_, best_energy_;
  std::uint32_t best_;
  std::uint64_t flips_;
};

}  // namespace isinglass::cuda
