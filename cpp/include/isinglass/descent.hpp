// One-flip descent to a local minimum.
#pragma once

#include "isinglass/control.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/reads.hpp"

namespace isinglass {

/// steepest: the flip that lowers the energy most, the lowest variable among equals; first: every flip that lowers it,
/// in ascending order, sweep after sweep.
enum class Descent { steepest, first };

Reads descend(const Qubo& qubo, Descent rule, const ReadOptions& options, Control& control);

}  // namespace isinglass
