// Parallel tempering of one large dense model: a block a replica, a launch a sweep.
#pragma once

#include "isinglass/temper.hpp"
#include "qubo_batch.hpp"

namespace isinglass::cuda {

/// What isinglass::temper finds, bit for bit; the layout is of the CPU and says nothing here.
Tempered large_temper(const Qubo& qubo, const TemperOptions& options, const Placement& placement, Control& control);

}  // namespace isinglass::cuda
