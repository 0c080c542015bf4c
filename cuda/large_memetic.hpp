// Memetic search of one large dense model: the walks of many pools on the device, their crossing on the host.
#pragma once

#include "isinglass/memetic.hpp"
#include "qubo_batch.hpp"

namespace isinglass::cuda {

/// What isinglass::memetic finds, bit for bit; the layout is of the CPU and says nothing here. Of at most
/// kMostLargeTabu variables.
MemeticResult large_memetic(const Qubo& qubo, const MemeticOptions& options, const Placement& placement,
                            Control& control);

}  // namespace isinglass::cuda
