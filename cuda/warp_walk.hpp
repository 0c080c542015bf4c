// A read that one warp walks: lane l keeps the fields of variables l, l + 32, l + 64 ... in registers, the states are
// bits that every lane knows. Visits variables in ascending order and decides as the CPU kernels do (moves.hpp).
#pragma once

#include "kernel.hpp"
#include "warp_record.hpp"

namespace isinglass::cuda {

/// Words that one load brings: a lane's share of a row, or a plane of it.
template <unsigned kWords>
struct alignas(4 * kWords) Words {
  std::uint32_t at[kWords];
};

/// Rows of couplings of kBits bits for kBlocks variables a lane, packed by pack_rows.
template <unsigned kBits, unsigned kBlocks>
struct PackedRows {
  static constexpr unsigned kUsed = (kBlocks * kBits + 31) / 32;
  static constexpr unsigned kWords = kUsed <= 2 ? kUsed : kUsed <= 4 ? 4 : 8;
  static constexpr unsigned kLoad = kWords < 4 ? kWords : 4;

  const std::uint32_t* rows;

  /// Adds or subtracts row i to the fields of this lane.
  ISINGLASS_DEVICE void add(unsigned i, bool down, std::int32_t* field) const {
    std::uint32_t word[kWords];
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kWords; k += kLoad) {
      if (k >= kUsed) break;
      const std::uint32_t* const from = rows + i * (kWords * kWarp) + k * kWarp + lane_index() * kLoad;
      const auto loaded = *reinterpret_cast<const Words<kLoad>*>(from);
      ISINGLASS_UNROLL
      for (unsigned w = 0; w < kLoad; ++w) word[k + w] = loaded.at[w];
    }
    if constexpr (kBits == 32) {
      ISINGLASS_UNROLL
      for (unsigned b = 0; b < kBlocks; ++b) {
        const auto w = static_cast<std::int32_t>(word[b]);
        field[b] += down ? -w : w;
      }
    } else {
      const std::uint32_t sign = down ? 0xffU : 0x01U;
      constexpr unsigned kPerWord = 32 / kBits;
      ISINGLASS_UNROLL
      for (unsigned b = 0; b < kBlocks; ++b) {
        const std::uint32_t pick = sign << 8 * (b % kPerWord);
        field[b] = kBits == 8 ? dot4(word[b / kPerWord], pick, field[b]) : dot2(word[b / kPerWord], pick, field[b]);
      }
    }
  }
};

/// What no threshold at this temperature exceeds: -log2 u is at most 24. Plain floats, as on the CPU.
ISINGLASS_DEVICE std::int32_t threshold_bound(float t2) {
  constexpr float kMost = 2147483520.0f;
  const float bound = 24.001f * t2;
  return bound < kMost ? static_cast<std::int32_t>(bound) : 2147483647;
}
ISINGLASS_DEVICE std::int32_t bounded_threshold(std::uint32_t bits, float t2) {
  constexpr float kMost = 2147483520.0f;
  const float limit = neg_log2_uniform(bits) * t2;
  return static_cast<std::int32_t>(limit < kMost ? limit : kMost);
}

template <class Rows, unsigned kBlocks>
struct WarpWalk {
  Rows rows;
  const std::int32_t* linear;
  unsigned n;
  std::int32_t field[kBlocks];
  std::uint32_t state[kBlocks];
  std::uint32_t best_state[kBlocks];
  std::int64_t energy, best;
  std::uint32_t flips;  // since the walk began or was resumed

  /// Fields and energy of `state`.
  ISINGLASS_DEVICE void begin() {
    ISINGLASS_UNROLL
    for (unsigned b = 0; b < kBlocks; ++b) {
      const unsigned variable = b * kWarp + lane_index();
      field[b] = variable < n ? linear[variable] : 0;
    }
    energy = 0;
    ISINGLASS_UNROLL
    for (unsigned b = 0; b < kBlocks; ++b) {
      for (std::uint32_t on = state[b]; on != 0; on &= on - 1) {
        const unsigned k = lowest_bit(on);
        energy += shuffle(field[b], k);
        rows.add(b * kWarp + k, false, field);
      }
    }
  }

  ISINGLASS_DEVICE void begin_random(std::uint64_t seed, std::uint64_t read) {
    const SweepKey key = sweep_key(read_key(seed ^ stream::initial_state, read), 0);
    ISINGLASS_UNROLL
    for (unsigned b = 0; b < kBlocks; ++b) {
      const unsigned variable = b * kWarp + lane_index();
      state[b] = ballot(variable < n && random_bits(key, variable) >> 31 != 0);
    }
    begin();
    take_as_best();
  }

  ISINGLASS_DEVICE void begin_given(const std::uint32_t* words) {
    ISINGLASS_UNROLL
    for (unsigned b = 0; b < kBlocks; ++b) state[b] = words[b];
    begin();
    take_as_best();
  }

  ISINGLASS_DEVICE void resume(const ReadRecord& record) {
    ISINGLASS_UNROLL
    for (unsigned b = 0; b < kBlocks; ++b) {
      state[b] = record.state[b];
      best_state[b] = record.best_state[b];
    }
    begin();
    best = record.best;
  }

  /// Leaves the walk in its record; `begun`: it has not been there before.
  ISINGLASS_DEVICE void pause(ReadRecord& record, bool begun) const {
    sync_warp();  // every lane has read what `resume` found there
    if (lane_index() != 0) return;
    ISINGLASS_UNROLL
    for (unsigned b = 0; b < kBlocks; ++b) {
      record.state[b] = state[b];
      record.best_state[b] = best_state[b];
    }
    record.energy = energy;
    record.best = best;
    record.flips = begun ? flips : record.flips + flips;
  }

  ISINGLASS_DEVICE void take_as_best() {
    best = energy;
    ISINGLASS_UNROLL
    for (unsigned b = 0; b < kBlocks; ++b) best_state[b] = state[b];
  }
  ISINGLASS_DEVICE void note_best() {
    if (energy < best) take_as_best();
  }

  /// One sweep; true when something flipped. Cold: only what lowers the energy, without random numbers.
  template <bool kCold>
  ISINGLASS_DEVICE bool sweep(SweepKey key, float t2) {
    const std::int32_t bound = kCold ? -1 : threshold_bound(t2);
    const std::uint32_t before = flips;
    ISINGLASS_UNROLL
    for (unsigned b = 0; b < kBlocks; ++b) {
      const unsigned variable = b * kWarp + lane_index();
      const bool live = variable < n;
      std::int32_t cost = state[b] >> lane_index() & 1 ? -field[b] : field[b];
      std::int32_t limit = bound;
      std::uint32_t open = ballot(live && cost <= bound);
      if constexpr (!kCold) {
        if (open == 0) continue;  // no random number of this temperature can accept any of them
        limit = bounded_threshold(random_bits(key, variable), t2);
        open = ballot(live && cost <= limit);
      }
      while (open != 0) {
        const unsigned k = lowest_bit(open);
        const bool down = state[b] >> k & 1;
        energy += shuffle(cost, k);
        ++flips;
        state[b] ^= std::uint32_t{1} << k;
        rows.add(b * kWarp + k, down, field);
        cost = state[b] >> lane_index() & 1 ? -field[b] : field[b];
        open = ballot(live && lane_index() > k && cost <= limit);
      }
    }
    return flips != before;
  }

  /// On from the best state, where it is lower, down to a local minimum.
  ISINGLASS_DEVICE void quench() {
    if (best < energy) {
      ISINGLASS_UNROLL
      for (unsigned b = 0; b < kBlocks; ++b) state[b] = best_state[b];
      begin();
    }
    while (sweep<true>({0, 0}, 0)) {
    }
  }
};

}  // namespace isinglass::cuda
