// Batches of evidence problems on a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/evidence.hpp"

namespace isinglass::cuda {

/// Most items of one problem.
inline constexpr std::size_t kMostEvidence = 256;

struct SwapBatchOptions {
  std::size_t num_reads = 0;   // see SwapOptions
  std::uint32_t patience = 0;  // see SwapOptions
  int device = 0;
  int threads = 1;               // that fill and read memory of the device
  std::uint32_t most_moves = 0;  // of a search in one launch; 0: some 20 ms of them. No answer depends on it
};

/// swap_search() of each problem with its seed: the same selection, reads and moves. The walks are the device's, a warp
/// each; values are counted on the host. Throws std::invalid_argument for more than 256 items.
std::vector<EvidenceAnswer> swap_search(std::span<const EvidenceProblem* const> problems,
                                        std::span<const std::uint64_t> seeds, const SwapBatchOptions& options,
                                        Control& control);

}  // namespace isinglass::cuda
