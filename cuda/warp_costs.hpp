// One state of a small dense model in the registers of a warp, as what every flip would cost: variable 32 k + lane is
// slot k of that lane, so the state bits of a slot, voted on by the warp, are word k of the packed state. What tabu and
// memetic search of small models are written in.
#pragma once

#include "kernel.hpp"
#include "small_models.hpp"

namespace isinglass::cuda {

inline constexpr std::int32_t kNoCost = 2147483647;  // of what stands beyond the last variable: no rule accepts it

/// The model's rows, copied where they belong into shared memory: the first bytes of the arena. All threads call it.
template <class Row, unsigned kSlots>
ISINGLASS_DEVICE const Row* rows_of(const SmallModel& model) {
  const Row* const rows = static_cast<const Row*>(model.rows);
  if constexpr (kRowsInShared<Row>) {
    copy_to_shared(shared_arena<Row>(), rows, sizeof(Row) * kWarp * kSlots * model.n);
    sync_block();
  }
  return rows;
}

/// The couplings are whole rows of 32 * kSlots entries, zeros on the diagonal and beyond n.
template <class Row, unsigned kSlots>
class WarpCosts {
 public:
  static constexpr unsigned kStride = kWarp * kSlots;

  ISINGLASS_DEVICE WarpCosts(const Row* rows, const std::int32_t* linear, unsigned n)
      : rows_(rows), linear_(linear), n_(n) {}

  /// Goes to the state of these words (the same in every lane); its energy.
  template <class Words>
  ISINGLASS_DEVICE std::int64_t begin(Words word_of) {
    x_ = 0;
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) cost_[k] = bias(k);
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      const std::uint32_t word = word_of(k);
      for (std::uint32_t left = word; left != 0; left &= left - 1) {
        const Row* const row = row_of(kWarp * k + lowest_bit(left));
        ISINGLASS_UNROLL
        for (unsigned j = 0; j < kSlots; ++j) cost_[j] += row[kWarp * j];
      }
      x_ |= (word >> lane_index() & 1) << k;
    }
    // Of what is on: biases and fields, in which every coupling stands twice.
    std::int64_t twice = 0;
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      if (!on(k)) continue;
      twice += std::int64_t{bias(k)} + cost_[k];
      cost_[k] = -cost_[k];
    }
    return warp_sum(twice) / 2;
  }

  /// The same for the random state of a read, by the key of its stream.
  ISINGLASS_DEVICE std::int64_t begin_random(SweepKey key) {
    return begin([&](unsigned k) {
      const unsigned i = kWarp * k + lane_index();
      return ballot(i < n_ && random_bits(key, i) >> 31 != 0);
    });
  }

  /// Flips variable i, whose state was `before`; the same in every lane.
  ISINGLASS_DEVICE void flip(unsigned i, bool before) {
    const Row* const row = row_of(i);
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      const std::int32_t w = row[kWarp * k];
      cost_[k] += on(k) != before ? -w : w;
      if (i == kWarp * k + lane_index()) {
        cost_[k] = -cost_[k];
        x_ ^= 1U << k;
      }
    }
  }

  /// What flipping the variable of slot k changes the energy by.
  ISINGLASS_DEVICE std::int32_t cost(unsigned k) const { return cost_[k]; }
  ISINGLASS_DEVICE bool on(unsigned k) const { return x_ >> k & 1; }
  ISINGLASS_DEVICE std::uint32_t word(unsigned k) const { return ballot(on(k)); }
  /// The bits of this lane's own variables, by slot.
  ISINGLASS_DEVICE std::uint32_t bits() const { return x_; }
  /// Of variable i and the one of slot k.
  ISINGLASS_DEVICE std::int32_t coupling(unsigned i, unsigned k) const { return row_of(i)[kWarp * k]; }
  ISINGLASS_DEVICE unsigned size() const { return n_; }

 private:
  /// This lane's entries of a row. Said of which memory: as a pointer that was kept it would be read by slower loads.
  ISINGLASS_DEVICE const Row* row_of(unsigned i) const {
    const Row* rows = nullptr;
    if constexpr (kRowsInShared<Row>) {
      rows = shared_arena<const Row>();
    } else {
      rows = in_device_memory(rows_);
    }
    return rows + i * kStride + lane_index();
  }
  ISINGLASS_DEVICE std::int32_t bias(unsigned k) const {
    const unsigned i = kWarp * k + lane_index();
    return i < n_ ? in_device_memory(linear_)[i] : kNoCost;
  }

  const Row* rows_;  // where they are not in shared memory
  const std::int32_t* linear_;
  unsigned n_;
  std::int32_t cost_[kSlots];
  std::uint32_t x_;
};

}  // namespace isinglass::cuda
