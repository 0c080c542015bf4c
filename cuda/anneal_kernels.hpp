// Annealing on a device: blocks of warps that walk reads of one problem, the rows in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver.hpp"
#include "qubo_rows.hpp"
#include "warp_record.hpp"

namespace isinglass::cuda {

/// One problem of a batch. Offsets are entries of the arrays of AnnealArgs.
struct AnnealProblem {
  std::uint64_t seed;
  std::uint64_t first_read;  // of this launch, as the hash counts reads
  std::uint64_t rows;        // words
  std::uint64_t linear;
  std::uint64_t t2;
  std::uint64_t trace;
  std::uint64_t start;  // words of the given start states
  std::uint64_t read;   // place of the first read
  std::uint32_t n;
  std::uint32_t reads;
};

/// What a block walks: so many reads of a problem as it has warps, from `first` on.
struct AnnealBlock {
  std::uint32_t problem;
  std::uint32_t first;
};

struct AnnealArgs {
  const AnnealProblem* problems;
  const AnnealBlock* blocks;
  const std::uint32_t* rows;
  const std::int32_t* linear;
  const float* t2;
  const std::uint32_t* starts;  // kMostBlocks words a read, or nullptr: random ones
  std::int64_t* trace;          // lowest energy of a sweep, or nullptr
  ReadRecord* reads;
  std::uint32_t first_sweep, num_sweeps;  // of this launch
  bool begin, end;                        // the first launch; the last one
  bool quench;
};

inline constexpr unsigned kAnnealThreads = 512;
const Kernel& anneal_kernel(RowShape shape);

}  // namespace isinglass::cuda
