// Annealing and tempering of one sparse model: replicas across lanes, variables that are no neighbours across warps.
#pragma once

#include "isinglass/anneal.hpp"
#include "isinglass/temper.hpp"
#include "qubo_batch.hpp"

namespace isinglass::cuda {

/// What isinglass::anneal finds, bit for bit (without a trace); the layout is of the CPU and says nothing here.
Reads sparse_anneal(const Qubo& qubo, const AnnealOptions& options, const Placement& placement, Control& control);
/// What isinglass::temper finds, likewise.
Tempered sparse_temper(const Qubo& qubo, const TemperOptions& options, const Placement& placement, Control& control);

}  // namespace isinglass::cuda
