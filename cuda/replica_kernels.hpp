// Replicas of one large model, in whatever form it is walked: what each is between two launches, and the ladders of
// tempering, whose replicas lie side by side.
#pragma once

#include "driver.hpp"
#include "isinglass/ladder.hpp"

namespace isinglass::cuda {

struct ReplicaRecord {
  std::int64_t energy, best;
  std::uint64_t flips;
};

inline constexpr std::uint32_t kReplicasOfRead = kLadderReplicas;

/// After a sweep of tempering: a block a read. The first launch makes the ladders.
struct ExchangeArgs {
  const ReplicaRecord* records;
  Ladder* ladders;
  const double* temperatures;  // of the first ladder
  float* t2_each;              // of replicas
  std::uint32_t* over;         // by read; 1: below the target
  std::uint64_t seed, first_read;
  double scale, offset, target;  // integer energies to the caller's
  std::uint32_t rungs;
  std::uint32_t sweep, all_sweeps;
  bool begins;
};
extern const Kernel exchange;

}  // namespace isinglass::cuda
