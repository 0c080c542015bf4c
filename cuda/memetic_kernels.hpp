// What the kernels of memetic batches are given: a wave of pools, filled by one kernel and bred by another.
#pragma once

#include "driver.hpp"
#include "small_models.hpp"
#include "warp_tabu.hpp"

namespace isinglass::cuda {

/// One pool as the host plans it. Reads, members and their words are those of the wave; a read or a member has as many
/// words as a lane of its model has slots.
struct PoolTask {
  std::uint64_t seed;
  std::uint64_t number;
  double hot, ratio;  // temperature of the first sweep, in integer units, and what each sweep multiplies it by
  TabuRules rules;
  std::uint64_t most_children, most_failures;
  std::size_t first_read, first_read_word;
  std::size_t first_member, first_member_word;
  std::size_t first_holds;
  std::uint32_t model;
  std::uint32_t sweeps;
  std::uint32_t size;   // of the pool when it is full
  std::uint32_t given;  // reads that are start states of the caller, the first ones: they are not annealed
  std::uint32_t reads;
};

/// A read while it is annealed, and what it has come to.
struct FillRead {
  std::int64_t energy, best_energy;
  double temperature;
};

/// A pool while it is bred, and what has come of it.
struct BredPool {
  std::uint64_t children, failures, moves;
  std::uint32_t members;
  std::uint32_t searching;  // 1: in the middle of a child
  std::uint32_t ended;
  std::uint32_t target_reached;
  TabuProgress child;
};

/// Reads of one pool that a block's warps take in turn.
struct FillTask {
  std::uint32_t pool, first, reads;
};
struct FillArgs {
  const FillTask* tasks;
  const PoolTask* pools;
  const SmallModel* models;
  FillRead* reads;
  std::uint32_t* here;  // words of reads: where they stand, the caller's states at first; what they came to at last
  std::uint32_t* best;
  std::uint32_t first, count;  // sweeps
  bool finish;                 // the last launch, whatever is left
};

/// Pools of one model that a block's warps take in turn.
struct BreedTask {
  std::uint32_t first, pools;
};
struct BreedArgs {
  const BreedTask* tasks;
  const PoolTask* pools;
  const SmallModel* models;
  const FillRead* reads;
  const std::uint32_t* read_words;
  BredPool* bred;
  std::int64_t* energies;  // of members, in order
  std::uint32_t* words;
  std::uint32_t* child_here;  // words by pool: where the search of a child stands, and its best state
  std::uint32_t* child_best;
  std::uint32_t* holds;
  std::uint64_t moves;  // of each pool in this launch
  std::size_t bins;     // where the warps' bins lie in shared memory
  bool begins;          // the first launch
};

inline constexpr unsigned kFillWarps = 8;
inline constexpr unsigned kBreedWarps = 2;
inline constexpr std::size_t kBinBytes = 32 * sizeof(std::uint32_t);  // of a breeding warp

/// By index_of a shape.
extern const Kernel* const fill_kernels[kRowBytes.size() * kSlots.size()];
extern const Kernel* const breed_kernels[kRowBytes.size() * kSlots.size()];

}  // namespace isinglass::cuda
