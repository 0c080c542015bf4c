// Annealing and tempering of one large dense model: a block a replica.
#pragma once

#include "isinglass/anneal.hpp"
#include "isinglass/schedule.hpp"
#include "isinglass/temper.hpp"
#include "qubo_batch.hpp"

namespace isinglass::cuda {

/// Variables whose fields fit the shared memory of a block of every supported device.
inline constexpr std::size_t kMostLarge = 32768;
/// Those of this model: fields of 16 bits take half of it.
std::size_t most_large(const Qubo& qubo);

/// What isinglass::anneal finds, bit for bit (without a trace); the layout is of the CPU and says nothing here.
Reads large_anneal(const Qubo& qubo, const AnnealOptions& options, const Placement& placement, Control& control);
/// What isinglass::temper finds, likewise.
Tempered large_temper(const Qubo& qubo, const TemperOptions& options, const Placement& placement, Control& control);

/// What isinglass::probe_window finds, likewise.
Window large_probe(const Qubo& qubo, int device);

}  // namespace isinglass::cuda
