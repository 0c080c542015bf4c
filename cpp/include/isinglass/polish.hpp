// Exchanges that improve a packing.
#pragma once

#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/packing.hpp"

namespace isinglass {

/// Improves a selection until neither adding an item nor exchanging one of its items (but the pinned ones, which come
/// first) for one outside increases its value by more than rounding. The latest choices are exchanged first, each for
/// the item of largest value (the lowest index of several); what an exchange frees is spent by density. Ends early,
/// with what has been gained, when `control` stops.
void polish(const PackingProblem& problem, std::vector<Item>& selection, Control& control);

/// What each item of a selection adds to those before it; items that add nothing, but the pinned ones, leave the
/// selection.
std::vector<double> replay(const PackingProblem& problem, std::vector<Item>& selection);

}  // namespace isinglass
