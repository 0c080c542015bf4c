// The ladder of a read of parallel tempering, for host and device: temperatures, which replica stands where, and how
// often neighbours exchanged.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isinglass/elementary.hpp"
#include "isinglass/random.hpp"

namespace isinglass {

inline constexpr std::size_t kLadderReplicas = 16;
inline constexpr std::size_t kOneLadderFrom = 150;    // variables; below, 16 temperatures stand too close: two ladders
inline constexpr std::uint32_t kSweepsPerRound = 64;  // between two looks at the target

/// What a kernel takes for a temperature >= 0 in integer units: float(T ln 2), kept finite.
ISINGLASS_HOST_DEVICE float kernel_temperature(double temperature) {
  constexpr double kMost = 1e30;  // 24 times it is still finite
  const double t2 = temperature * kLn2;
  return static_cast<float>(t2 < kMost ? t2 : kMost);
}

/// The rungs a ladder has: of all replicas, or twice of half of them.
ISINGLASS_HOST_DEVICE std::size_t rungs_of(std::size_t variables) {
  return variables < kOneLadderFrom ? kLadderReplicas / 2 : kLadderReplicas;
}

/// Plain data. Two ladders of eight rungs share their temperatures and their counts.
struct Ladder {
  std::uint64_t rungs;
  double temperature[kLadderReplicas];  // hot first, in integer units
  double beta[kLadderReplicas];
  float t2[kLadderReplicas];
  std::uint64_t attempts[kLadderReplicas], accepted[kLadderReplicas];  // of a rung with the next, since the last move
  std::uint32_t at[kLadderReplicas];                                   // replica at each rung of each ladder
  std::uint32_t next_move;

  /// From `rungs_in` temperatures.
  ISINGLASS_HOST_DEVICE void begin(const double* temperatures, std::size_t rungs_in) {
    constexpr std::uint32_t kFirstMove = 16;  // sweeps before the ladder first moves, then twice as many each time
    rungs = rungs_in;
    next_move = kFirstMove;
    for (std::uint32_t k = 0; k < kLadderReplicas; ++k) at[k] = k;
    set(temperatures);
  }

  /// The temperature of every replica, as kernels take it.
  ISINGLASS_HOST_DEVICE void temperatures_of_replicas(float* t2_of) const {
    for (std::size_t k = 0; k < kLadderReplicas; ++k) t2_of[at[k]] = t2[k % rungs];
  }

  /// After sweep `sweep` every second rung, from sweep % 2 on, exchanges with the next: temperatures move, states do
  /// not. Rungs of one sweep are independent.
  ISINGLASS_HOST_DEVICE void exchange(std::uint64_t seed, std::uint64_t read, std::uint32_t sweep, std::size_t rung,
                                      const std::int64_t* energy) {
    const SweepKey key = sweep_key(read_key(seed ^ stream::exchange, read), sweep);
    for (std::size_t hot = rung; hot + 1 < kLadderReplicas; hot += rungs) {
      const std::size_t cold = hot + 1;
      // Both energies and their difference are below 2^53.
      const double rise = (beta[rung] - beta[rung + 1]) * static_cast<double>(energy[at[cold]] - energy[at[hot]]);
      const float u = neg_log2_uniform(random_bits(key, static_cast<std::uint32_t>(hot)));
      ++attempts[rung];
      if (rise <= static_cast<double>(u) * kLn2) {
        const std::uint32_t moved = at[hot];
        at[hot] = at[cold];
        at[cold] = moved;
        ++accepted[rung];
      }
    }
  }

  /// At sweeps 16, 32, 64 ... of the first half: equal shares of the summed refusal rates, interpolated in beta (Syed,
  /// Bouchard-Cote, Deligiannidis, Doucet 2022, "Non-reversible parallel tempering: a scalable highly parallel MCMC
  /// scheme").
  ISINGLASS_HOST_DEVICE void move_after(std::uint32_t sweep, std::uint32_t num_sweeps) {
    if (sweep + 1 != next_move || sweep + 1 > num_sweeps / 2) return;
    next_move *= 2;
    double refused[kLadderReplicas];
    refused[0] = 0;
    for (std::size_t k = 0; k + 1 < rungs; ++k) {
      const double rate =
          (static_cast<double>(attempts[k] - accepted[k]) + 0.5) / (static_cast<double>(attempts[k]) + 1);
      refused[k + 1] = refused[k] + rate;
    }
    double moved[kLadderReplicas];
    moved[0] = temperature[0];
    moved[rungs - 1] = temperature[rungs - 1];
    std::size_t below = 0;
    for (std::size_t k = 1; k + 1 < rungs; ++k) {
      const double share = refused[rungs - 1] * static_cast<double>(k) / static_cast<double>(rungs - 1);
      while (refused[below + 1] < share) ++below;
      const double part = (share - refused[below]) / (refused[below + 1] - refused[below]);
      moved[k] = 1 / (beta[below] + part * (beta[below + 1] - beta[below]));
    }
    if (beta[rungs - 1] > 0) {
      set(moved);
    } else {
      forget();
    }
  }

 private:
  ISINGLASS_HOST_DEVICE void set(const double* temperatures) {
    for (std::size_t k = 0; k < rungs; ++k) {
      const double t = temperatures[k];
      temperature[k] = t;
      t2[k] = kernel_temperature(t);
      beta[k] = t > 0 ? 1 / t : 0;
    }
    forget();
  }
  ISINGLASS_HOST_DEVICE void forget() {
    for (std::size_t k = 0; k < kLadderReplicas; ++k) attempts[k] = accepted[k] = 0;
  }
};

}  // namespace isinglass
