// Optimal packings by branch and bound.
#pragma once

#include <cstddef>

#include "isinglass/control.hpp"
#include "isinglass/greedy.hpp"
#include "isinglass/packing.hpp"

namespace isinglass {

struct BranchOptions {
  std::size_t node_limit = 1'000'000;
  int threads = 1;  // of the search for a start; no answer depends on it
};

/// Depth first from the answer of high effort: a node fixes a set and what may still join it. It is left when the
/// online bound at its set or the concave bound, carried on from its parent's point, does not exceed the best value by
/// more than rounding; the prices of both also tell which items can no longer belong to a better set. At a limit the
/// bound is the largest of the nodes that were left open.
Packing branch_and_bound(const PackingProblem& problem, const BranchOptions& options, Control& control);

}  // namespace isinglass
