// Annealing of many small models at once, each exactly as `anneal` would walk it.
#pragma once

#include <span>
#include <vector>

#include "isinglass/anneal.hpp"
#include "qubo_batch.hpp"

namespace isinglass::cuda {

struct AnnealJob {
  const Qubo* qubo;  // of at most kMostVariables
  AnnealOptions options;
};

std::vector<Reads> anneal(std::span<const AnnealJob> jobs, const Placement& placement, int threads, Control& control);

}  // namespace isinglass::cuda
