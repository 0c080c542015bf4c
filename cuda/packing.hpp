// Batches of packing problems on a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/greedy.hpp"
#include "isinglass/packing.hpp"

namespace isinglass::cuda {

/// Most items of one problem.
inline constexpr std::size_t kMostItems = 1024;

struct PackOptions {
  bool plus_max = true;  // Greedy+Max instead of density greedy with the best single item
  CertificateLevel certificate = CertificateLevel::fast;
  int device = 0;
  int threads = 1;              // that fill and read memory of the device, and certify
  std::uint32_t most_work = 0;  // gains of a query in one launch; 0: some 20 ms of them. No answer depends on it
};

/// greedy() of each problem: the same selection, gains, value and bound, bit for bit. The runs are the device's, a warp
/// each; costs, values and certificates are counted on the host by the functions that check every other answer.
/// Throws std::invalid_argument for what the device does not take: more than 1,024 items, a sparse similarity.
std::vector<Packing> pack(std::span<const PackingProblem* const> problems, const PackOptions& options,
                          Control& control);

}  // namespace isinglass::cuda
