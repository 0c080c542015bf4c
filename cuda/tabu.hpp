// Batches of tabu searches on small dense models: a warp a read.
#pragma once

#include <span>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/tabu.hpp"
#include "qubo_batch.hpp"

namespace isinglass::cuda {

struct TabuJob {
  const Qubo* qubo;  // kMostSmall variables at most
  TabuOptions options;
};

/// What isinglass::tabu finds for each job, bit for bit; the layout is of the CPU and says nothing here. A stop cuts
/// all reads of all jobs short where they stand.
std::vector<Reads> tabu(std::span<const TabuJob> jobs, const Placement& placement, Control& control);

}  // namespace isinglass::cuda
