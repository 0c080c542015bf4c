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

/// A state that becomes bytes of 0 and 1, (n,), in a row of others.
struct KeptState {
  std::uint32_t from, row;
};
struct UnpackArgs {
  const KeptState* kept;
  const std::uint32_t* words;  // bits by variable, one state after another; or a word a variable, 32 states after 32
  std::int8_t* to;
  std::uint32_t n;
  bool by_variable;
};
/// A block a state.
extern const Kernel unpack_states;
inline constexpr unsigned kUnpackThreads = 256;

}  // namespace isinglass::cuda
