// One-flip tabu search of a warp, move by move as cpp/src/kernels/tabu_kernels.cpp makes it.
#pragma once

#include "tabu_rules.hpp"
#include "warp_costs.hpp"

namespace isinglass::cuda {

template <class Row, unsigned kSlots>
class WarpTabu {
 public:
  /// Nothing is held; the best is where the walk stands.
  ISINGLASS_DEVICE WarpTabu(WarpCosts<Row, kSlots>& walk, std::int64_t energy)
      : walk_(walk), at_{energy, energy, 0, 0}, best_(walk.bits()) {
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) hold_[k] = 0;
  }

  /// Until the search ends (true), or rests after `moves` more (false).
  ISINGLASS_DEVICE bool search(const TabuRules& rules, SweepKey keys, std::uint64_t moves) {
    const std::uint64_t rest = moves < rules.max_moves - at_.moves ? at_.moves + moves : rules.max_moves;
    bool ended = at_.since >= rules.patience || at_.best_energy <= rules.target;
    while (!ended && at_.moves < rest) ended = move(rules, keys);
    return ended || at_.moves >= rules.max_moves;
  }

  ISINGLASS_DEVICE const TabuProgress& progress() const { return at_; }
  /// Word k of the best state.
  ISINGLASS_DEVICE std::uint32_t best_word(unsigned k) const { return ballot(best_ >> k & 1); }

  /// To go on in another launch. `holds`: kSlots * 32 numbers.
  ISINGLASS_DEVICE void save(TabuProgress& at, std::uint32_t* best, std::uint32_t* holds) const {
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      const std::uint32_t word = best_word(k);
      holds[kWarp * k + lane_index()] = hold_[k];
      if (lane_index() == 0) best[k] = word;
    }
    if (lane_index() == 0) at = at_;
  }
  ISINGLASS_DEVICE void restore(const TabuProgress& at, const std::uint32_t* best, const std::uint32_t* holds) {
    at_ = at;
    best_ = 0;
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      best_ |= (best[k] >> lane_index() & 1) << k;
      hold_[k] = holds[kWarp * k + lane_index()];
    }
  }

 private:
  /// True when it was the last.
  ISINGLASS_DEVICE bool move(const TabuRules& rules, SweepKey keys) {
    // A held variable may move when that leads below the best energy; then its cost is the lowest of all, or another
    // such one's is. So one minimum over what may move serves for both rules.
    const std::int64_t gap = at_.best_energy - at_.energy;
    const std::int32_t gain = gap < -kNoCost ? -kNoCost : static_cast<std::int32_t>(gap);
    std::int32_t mine = kNoCost;
    unsigned slot = 0;
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      const std::int32_t cost = walk_.cost(k);
      const bool may = hold_[k] == 0 || cost < gain;
      if (may && cost < mine) {
        mine = cost;
        slot = k;
      }
    }
    const std::int32_t lowest = warp_lowest(mine);
    // Of equals the lowest variable; its state comes along in the last bit.
    const std::int32_t claim =
        mine == lowest ? static_cast<std::int32_t>((kWarp * slot + lane_index()) << 1 | (walk_.bits() >> slot & 1))
                       : kNoCost;
    const auto chosen = static_cast<std::uint32_t>(warp_lowest(claim));
    const bool pause = lowest == kNoCost;  // all are held
    const unsigned variable = pause ? WarpCosts<Row, kSlots>::kStride : chosen >> 1;
    const std::uint32_t draw = mix(keys.k0 + static_cast<std::uint32_t>(at_.moves) * kVariableStep, keys.k1);
    const std::uint32_t tenure =
        rules.tenure + static_cast<std::uint32_t>((static_cast<std::uint64_t>(draw) * rules.spread) >> 32);
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      // One that aspires stays held for as long as it was.
      const bool begins = hold_[k] == 0 && variable == kWarp * k + lane_index();
      hold_[k] = begins ? tenure : hold_[k] > 0 ? hold_[k] - 1 : 0;
    }
    if (!pause) {
      walk_.flip(variable, chosen & 1);
      at_.energy += lowest;
    }
    ++at_.moves;
    if (!pause && at_.energy < at_.best_energy) {
      at_.best_energy = at_.energy;
      at_.since = 0;
      best_ = walk_.bits();
      return at_.energy <= rules.target;
    }
    return ++at_.since >= rules.patience;
  }

  WarpCosts<Row, kSlots>& walk_;
  TabuProgress at_;
  std::uint32_t best_;
  std::uint32_t hold_[kSlots];  // moves for which a variable is still held
};

}  // namespace isinglass::cuda
