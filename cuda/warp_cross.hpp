// Two members of a pool crossed by a warp, as cpp/src/memetic.cpp crosses them.
#pragma once

#include "warp_costs.hpp"

namespace isinglass::cuda {

/// Couplings, by variables, that may be looked at to group what two states differ in (PoolPlan::kGroupingWork).
inline constexpr unsigned kGroupingWork = 128;

template <class Row, unsigned kSlots>
class WarpCross {
 public:
  /// `bins`: 32 numbers of shared memory, this warp's own.
  ISINGLASS_DEVICE WarpCross(WarpCosts<Row, kSlots>& walk, std::int32_t largest_coupling, std::uint32_t* bins)
      : walk_(walk), largest_(largest_coupling), bins_(bins) {}

  /// The walk goes to the child of two states; its energy.
  ISINGLASS_DEVICE std::int64_t cross(const std::uint32_t* parent, const std::uint32_t* other, SweepKey key) {
    key_ = key;
    differs_ = 0;
    count_ = 0;
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      const std::uint32_t word = parent[k] ^ other[k];
      differs_ |= (word >> lane_index() & 1) << k;
      count_ += bit_count(word);
    }
    const std::uint32_t style = random_bits(key, 2);
    if (style >> 30 == 0 || !affordable(parent, other)) {
      return walk_.begin([&](unsigned k) { return parent[k] ^ ((parent[k] ^ other[k]) & random_bits(key, k + 3)); });
    }
    energy_ = walk_.begin([&](unsigned k) { return parent[k]; });
    group(parent, other, style & 3);
    take_groups();
    return energy_;
  }

 private:
  /// visit(i) for the variables in which the states differ, ascending; i is the same in every lane.
  template <class Visit>
  ISINGLASS_DEVICE void for_differing(const std::uint32_t* parent, const std::uint32_t* other, Visit visit) const {
    for (unsigned w = 0; w < kSlots; ++w) {
      for (std::uint32_t left = parent[w] ^ other[w]; left != 0; left &= left - 1) visit(kWarp * w + lowest_bit(left));
    }
  }

  ISINGLASS_DEVICE bool affordable(const std::uint32_t* parent, const std::uint32_t* other) const {
    if (walk_.size() <= kGroupingWork + 1) return true;
    unsigned couplings = 0;
    for_differing(parent, other, [&](unsigned i) {
      ISINGLASS_UNROLL
      for (unsigned k = 0; k < kSlots; ++k) couplings += walk_.coupling(i, k) != 0;
    });
    return warp_sum(couplings) <= kGroupingWork * walk_.size();
  }

  /// Links are couplings of i and a later one in which the states differ: slot k holds this lane's.
  ISINGLASS_DEVICE bool links(unsigned i, unsigned k) const {
    return (differs_ >> k & 1) != 0 && kWarp * k + lane_index() > i && walk_.coupling(i, k) != 0;
  }
  /// Ascending, the order in which links join: the strongest first, ties by the hash.
  ISINGLASS_DEVICE std::uint64_t rank(unsigned i, unsigned k) const {
    const std::int32_t w = walk_.coupling(i, k);
    const std::uint32_t tie = random_bits(key_, i * 0x9e3779b1U + kWarp * k + lane_index());
    return static_cast<std::uint64_t>(largest_ - (w < 0 ? -w : w)) << 32 | tie;
  }

  /// The first `wanted` links by rank: those ranked below `below`, and of those at it the first `equal` ones.
  struct Cut {
    std::uint64_t below;
    unsigned equal;
  };
  /// Five bits of the rank at a time, from the top, until no bin of links is cut in two.
  ISINGLASS_DEVICE Cut cut(const std::uint32_t* parent, const std::uint32_t* other, unsigned wanted) const {
    constexpr unsigned kDigit = 5;
    unsigned bits = 32;
    for (std::uint32_t rest = static_cast<std::uint32_t>(largest_); rest != 0; rest >>= 1) ++bits;
    std::uint64_t prefix = 0;
    for (;;) {
      const unsigned shift = bits > kDigit ? bits - kDigit : 0;
      const std::uint64_t digits = (std::uint64_t{1} << (bits - shift)) - 1;
      bins_[lane_index()] = 0;
      sync_warp();
      for_differing(parent, other, [&](unsigned i) {
        ISINGLASS_UNROLL
        for (unsigned k = 0; k < kSlots; ++k) {
          if (!links(i, k)) continue;
          const std::uint64_t at = rank(i, k);
          if (at >> bits == prefix >> bits) atomic_add(&bins_[at >> shift & digits], 1U);
        }
      });
      sync_warp();
      const unsigned mine = bins_[lane_index()];
      unsigned up_to = mine;  // this bin
      ISINGLASS_UNROLL
      for (unsigned d = 1; d < kWarp; d *= 2) {
        const unsigned lower = shuffle(up_to, lane_index() - d);
        if (lane_index() >= d) up_to += lower;
      }
      const unsigned bin = bit_count(ballot(up_to < wanted));
      if (bin == kWarp) return {~std::uint64_t{0}, 0};  // there are no more than are wanted
      const unsigned in_bin = shuffle(mine, bin);
      wanted -= shuffle(up_to - mine, bin);
      prefix |= static_cast<std::uint64_t>(bin) << shift;
      if (in_bin == wanted) return {prefix + (std::uint64_t{1} << shift), 0};
      if (shift == 0) return {prefix, wanted};
      bits = shift;
    }
  }

  /// Every variable is labelled with the lowest one of its group. `quarters` of a link a variable join, 0: all.
  ISINGLASS_DEVICE void group(const std::uint32_t* parent, const std::uint32_t* other, std::uint32_t quarters) {
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) label_[k] = kWarp * k + lane_index();
    const unsigned wanted = count_ * quarters / 4;
    if (quarters > 0 && wanted == 0) return;
    Cut at = quarters == 0 ? Cut{~std::uint64_t{0}, 0} : cut(parent, other, wanted);
    unsigned groups = count_;
    for_differing(parent, other, [&](unsigned i) {
      if (groups <= 1) return;
      std::uint32_t label = label_of(i);
      ISINGLASS_UNROLL
      for (unsigned k = 0; k < kSlots; ++k) {
        const bool link = links(i, k);
        const std::uint64_t ranked = link ? rank(i, k) : ~std::uint64_t{0};
        std::uint32_t joined = ballot(ranked < at.below);
        if (at.equal > 0) {
          const std::uint32_t same = ballot(link && ranked == at.below);
          const unsigned before = bit_count(same & ((1U << lane_index()) - 1));
          joined |= ballot((same >> lane_index() & 1) != 0 && before < at.equal);
          at.equal -= bit_count(same) < at.equal ? bit_count(same) : at.equal;
        }
        for (; joined != 0; joined &= joined - 1) {
          const std::uint32_t second = shuffle(label_[k], lowest_bit(joined));
          if (second == label) continue;
          const std::uint32_t low = second < label ? second : label, high = second < label ? label : second;
          ISINGLASS_UNROLL
          for (unsigned j = 0; j < kSlots; ++j) label_[j] = label_[j] == high ? low : label_[j];
          label = low;
          --groups;
        }
      }
    });
  }

  ISINGLASS_DEVICE std::uint32_t label_of(unsigned i) const {
    std::uint32_t mine = 0;
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) mine = i / kWarp == k ? label_[k] : mine;
    return shuffle(mine, i % kWarp);
  }

  /// Group by group whatever lowers the energy; of equals, by a coin.
  ISINGLASS_DEVICE void take_groups() {
    const SweepKey coins{key_.k1, key_.k0};
    unsigned number = 0;
    for (unsigned w = 0; w < kSlots; ++w) {
      bool first = false;
      ISINGLASS_UNROLL
      for (unsigned k = 0; k < kSlots; ++k) {
        first = w == k ? (differs_ >> k & 1) != 0 && label_[k] == kWarp * k + lane_index() : first;
      }
      for (std::uint32_t left = ballot(first); left != 0; left &= left - 1) {
        const std::uint32_t label = kWarp * w + lowest_bit(left);
        const std::int64_t before = energy_;
        const bool heads = random_bits(coins, number++) >> 31 != 0;
        flip_group(label);
        if (energy_ > before || (energy_ == before && heads)) flip_group(label);
      }
    }
  }

  ISINGLASS_DEVICE void flip_group(std::uint32_t label) {
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      const std::uint32_t state = walk_.word(k);
      for (std::uint32_t left = ballot((differs_ >> k & 1) != 0 && label_[k] == label); left != 0; left &= left - 1) {
        const unsigned next = lowest_bit(left);
        energy_ += shuffle(walk_.cost(k), next);
        walk_.flip(kWarp * k + next, state >> next & 1);
      }
    }
  }

  WarpCosts<Row, kSlots>& walk_;
  std::int32_t largest_;
  std::uint32_t* bins_;
  SweepKey key_;
  std::int64_t energy_;
  std::uint32_t differs_;  // by slot
  unsigned count_;         // of the variables in which they differ
  std::uint32_t label_[kSlots];
};

}  // namespace isinglass::cuda
