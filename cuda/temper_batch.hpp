// Parallel tempering of many small models at once, each exactly as `temper` would walk it.
#pragma once

#include <span>
#include <vector>

#include "isinglass/temper.hpp"
#include "qubo_batch.hpp"

namespace isinglass::cuda {

struct TemperJob {
  const Qubo* qubo;  // of at most kMostVariables
  TemperOptions options;
};

std::vector<Tempered> temper(std::span<const TemperJob> jobs, const Placement& placement, int threads,
                             Control& control);

}  // namespace isinglass::cuda
