// What the kernels of one large dense model are given: a block a replica.
#pragma once

#include "driver.hpp"
#include "isinglass/random.hpp"
#include "large_model.hpp"
#include "replica_kernels.hpp"

namespace isinglass::cuda {

/// What a replica draws its numbers as, and the temperatures that it goes down.
struct LargeReplica {
  std::uint64_t number;
  std::uint32_t first_t2, sweeps;
};

/// Accepted moves of all replicas that change the energy, and those that raise it.
struct Moves {
  std::int64_t changing, uphill;
};

/// Sweeps [first, first + count) of every replica, as far as its own ones go.
struct LargeSweepArgs {
  LargeModel model;
  std::uint64_t seed;
  const LargeReplica* replicas;
  ReplicaRecord* records;
  std::uint32_t* states;       // words by replica: where they stand, and end
  const std::uint32_t* given;  // where they begin; nullptr: at random
  std::uint32_t* bests;
  std::byte* fields;          // field_bytes by replica
  const float* t2;            // from a replica's first_t2 on, or
  const float* t2_each;       // one a replica, for the one sweep of this launch
  const std::uint32_t* over;  // by kReplicasOfRead replicas: 1 where they have ended; nullptr: none has
  Moves* moves;               // of a probe: one a sweep of the run
  std::uint32_t first, count;
  bool begins;  // the first launch
  bool keep_best;
  bool finish;  // the last launch: back to the best state, and down to a local minimum
};

inline constexpr unsigned kLargeThreads = 256;

/// By the bits of a coupling and of a field.
struct LargeKernels {
  const Kernel& of8_16;
  const Kernel& of16_16;
  const Kernel& of8_32;
  const Kernel& of16_32;
  const Kernel& of32_32;
};

/// Bytes of shared memory that a block of these kernels takes.
constexpr std::size_t sweep_bytes(std::size_t n, bool narrow) {
  return 16 + field_bytes(n, narrow) + sizeof(std::uint32_t) * ((n + 31) / 32);
}

extern const LargeKernels large_sweep_kernels;
extern const LargeKernels large_probe_kernels;  // the same, and moves are counted

}  // namespace isinglass::cuda
