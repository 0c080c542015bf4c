// Parallel tempering on a device: a block a read, a warp a replica; the ladder moves between two barriers a sweep.
#pragma once

#include <cstdint>

#include "driver.hpp"
#include "isinglass/ladder.hpp"
#include "qubo_rows.hpp"
#include "warp_record.hpp"

namespace isinglass::cuda {

/// One problem of a batch. Offsets are entries of the arrays of TemperArgs.
struct TemperProblem {
  std::uint64_t seed;
  std::uint64_t rows;  // words
  std::uint64_t linear;
  double temperatures[kLadderReplicas];  // of the first ladder
  double scale, offset;                  // from integer energies to the caller's
  double target;                         // -infinity: none
  std::uint32_t n;
};

/// A read: what its block begins with and what it leaves behind.
struct TemperRead {
  std::uint32_t problem;
  std::uint64_t read;  // as the hash counts reads
};
struct TemperRecord {
  ReadRecord replicas[kLadderReplicas];
};
struct TemperEnd {
  Ladder ladder;
  std::uint64_t flips;               // of all replicas
  std::uint32_t state[kMostBlocks];  // the best, quenched
  bool over;                         // below the target
};

struct TemperArgs {
  const TemperProblem* problems;
  const TemperRead* reads;
  const std::uint32_t* rows;
  const std::int32_t* linear;
  const std::uint32_t* starts;  // kMostBlocks words a read, or nullptr: random ones
  TemperRecord* records;
  TemperEnd* ends;
  std::uint32_t first_sweep, num_sweeps;  // of this launch
  std::uint32_t all_sweeps;
  bool begin, end;  // the first launch; the last one
};

inline constexpr unsigned kTemperThreads = 32 * kLadderReplicas;

/// What the warps of a block share, beside the rows.
struct TemperShared {
  Ladder ladder;
  std::int64_t energy[kLadderReplicas];
  std::int64_t best[kLadderReplicas];
  std::uint64_t flips[kLadderReplicas];
  float t2[kLadderReplicas];
};
/// Where the rows begin.
inline constexpr std::size_t kTemperRows = (sizeof(TemperShared) + 127) / 128 * 128;
const Kernel& temper_kernel(RowShape shape);

}  // namespace isinglass::cuda
