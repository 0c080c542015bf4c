// Tabu search of one large dense model: a block a read.
#pragma once

#include "isinglass/tabu.hpp"
#include "qubo_batch.hpp"

namespace isinglass::cuda {

/// Variables whose fields and holds fit the shared memory of a block of every supported device.
inline constexpr std::size_t kMostLargeTabu = 19456;

/// What isinglass::tabu finds, bit for bit; the layout is of the CPU and says nothing here.
Reads large_tabu(const Qubo& qubo, const TabuOptions& options, const Placement& placement, Control& control);

}  // namespace isinglass::cuda
