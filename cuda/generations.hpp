// Reads that a device searched all at once, counted as run_generations (reads.hpp) would have them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "isinglass/reads.hpp"

namespace isinglass::cuda {

/// Ends `reads`, whose states and energies are those of reads.count reads, after the generation that reaches the
/// target. One that stopped early keeps them all, cut short as they are. The lowest energy so far, by generation.
inline std::vector<double> count_generations(std::optional<double> target, StopReason stopped, std::size_t n,
                                             Reads& reads) {
  const std::size_t all = reads.count;
  std::vector<double> lowest;
  reads.count = 0;
  while (reads.count < all && !reads.target_reached) {
    double low = lowest.empty() ? std::numeric_limits<double>::infinity() : lowest.back();
    const std::size_t end = stopped == StopReason::none ? std::min(all, reads.count + kReadsPerGeneration) : all;
    for (; reads.count < end; ++reads.count) low = std::min(low, reads.energies[reads.count]);
    lowest.push_back(low);
    reads.target_reached = target && low <= *target;
    reads.generations += stopped == StopReason::none;
  }
  reads.states.resize(reads.count * n);
  reads.energies.resize(reads.count);
  reads.flips.resize(reads.count);
  reads.stopped = stopped;
  return lowest;
}

}  // namespace isinglass::cuda
