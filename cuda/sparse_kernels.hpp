// What the kernel of one sparse model is given: 32 replicas in the lanes of every warp of a block, variables across its
// warps.
//
// A sweep visits variables in ascending order, so one sees its lower neighbours after their turn and its higher ones
// before it. The same holds when variables are visited level by level, where a level is one more than the highest level
// of the lower neighbours: those of a level are no neighbours, and all of them are visited at once.
#pragma once

#include "driver.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/random.hpp"
#include "replica_kernels.hpp"

namespace isinglass::cuda {

struct SparseModel {
  const std::int64_t* row_start;
  const Coupling* couplings;
  const std::int32_t* linear;
  const std::uint32_t* order;        // variables by level
  const std::uint32_t* level_start;  // in that order; levels + 1
  std::uint32_t n, levels;
};

/// Sweeps [first_sweep, first_sweep + count). Replica r draws its numbers as read first + r. A state is a bit of a word
/// for each variable: words are those of 32 replicas, by block, then variable.
struct SparseArgs {
  SparseModel model;
  std::uint64_t seed, first;
  std::uint32_t replicas;
  ReplicaRecord* records;
  std::uint32_t* states;
  const std::uint32_t* given;  // where they begin; nullptr: at random
  std::uint32_t* bests;
  const float* t2;            // one a sweep of the run, or
  const float* t2_each;       // one a replica, for the one sweep of this launch
  const std::uint32_t* over;  // by kReplicasOfRead replicas: 1 where they have ended; nullptr: none has
  std::uint32_t first_sweep, count;
  bool begins;  // the first launch
  bool keep_best;
  bool finish;  // the last launch: back to the best state, and down to a local minimum
};

/// What blocks that share replicas do in one launch; between two launches all have seen what the others did.
enum class SparseStep : std::uint32_t {
  draw,    // the states where replicas begin
  add,     // their energies
  visit,   // a level of a sweep
  keep,    // the states that are better than the best ones
  note,    // that they are; one block
  settle,  // to the best states, where they are lower
  lower,   // the energies of those; one block
  cool     // a level of a sweep that takes only what lowers the energy
};

/// For few replicas of many variables: `parts` blocks share 32 of them, and a level of variables.
struct SparseSpreadArgs {
  SparseArgs all;  // whose flags and counts say nothing here
  SparseStep step;
  std::uint32_t parts;
  std::uint32_t level;   // of `visit` and `cool`
  std::uint32_t* moved;  // counts warps that had a cold flip
};

inline constexpr unsigned kSparseThreads = 1024;
inline constexpr unsigned kSpreadThreads = 256;
inline constexpr std::size_t kSparseBytes = 32 * 2 * sizeof(std::int64_t) + 16;

extern const Kernel sparse_sweep;
extern const Kernel sparse_spread;

}  // namespace isinglass::cuda
