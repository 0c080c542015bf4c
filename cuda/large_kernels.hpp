// What the kernels of one large dense model are given: a block a replica.
#pragma once

#include "driver.hpp"
#include "isinglass/ladder.hpp"
#include "isinglass/random.hpp"
#include "large_model.hpp"

namespace isinglass::cuda {

/// Sweeps [first, first + count) of every replica. Replica b draws its numbers as read first_read + b.
struct LargeSweepArgs {
  LargeModel model;
  std::uint64_t seed, first_read;
  LargeRecord* records;
  std::uint32_t* states;       // words by replica: where they stand, and end
  const std::uint32_t* given;  // where they begin; nullptr: at random
  std::uint32_t* bests;
  std::int32_t* fields;       // field_count(n) by replica
  const float* t2;            // one a sweep of the run, or
  const float* t2_each;       // one a replica, for the one sweep of this launch
  const std::uint32_t* over;  // by kReplicasOfRead replicas: 1 where they have ended; nullptr: none has
  std::uint32_t first, count;
  bool begins;  // the first launch
  bool keep_best;
  bool finish;  // the last launch: back to the best state, and down to a local minimum
};

inline constexpr std::uint32_t kReplicasOfRead = kLadderReplicas;
inline constexpr unsigned kLargeThreads = 256;

/// After a sweep of tempering: a block a read, whose replicas lie side by side. The first launch makes the ladders.
struct LargeExchangeArgs {
  const LargeRecord* records;
  Ladder* ladders;
  const double* temperatures;  // of the first ladder
  float* t2_each;
  std::uint32_t* over;  // 1: below the target
  std::uint64_t seed, first_read;
  double scale, offset, target;  // integer energies to the caller's
  std::uint32_t rungs;
  std::uint32_t sweep, all_sweeps;
  bool begins;
};
extern const Kernel large_exchange;

/// Bytes of shared memory that a block of these kernels takes.
constexpr std::size_t sweep_bytes(std::size_t n) {
  return 16 + sizeof(std::int32_t) * field_count(n) + sizeof(std::uint32_t) * ((n + 31) / 32);
}

extern const Kernel large_sweep_8;  // by the bits of a coupling
extern const Kernel large_sweep_16;
extern const Kernel large_sweep_32;

}  // namespace isinglass::cuda
