// Batches of memetic searches on small dense models: pools are filled and bred on the device, a warp each.
#pragma once

#include <span>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/memetic.hpp"
#include "qubo_batch.hpp"

namespace isinglass::cuda {

/// Members of a pool, in the caller's words, that a warp can put in order in a few milliseconds.
inline constexpr std::size_t kMostPoolSize = 256;

struct MemeticJob {
  const Qubo* qubo;        // kMostSmall variables at most
  MemeticOptions options;  // pool_size: kMostPoolSize at most; no trace
};

/// What isinglass::memetic finds for each job, bit for bit; the layout is of the CPU and says nothing here.
std::vector<MemeticResult> memetic(std::span<const MemeticJob> jobs, const Placement& placement, Control& control);

}  // namespace isinglass::cuda
