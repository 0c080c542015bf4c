// Greedy packing on random samples.
#pragma once

#include <cstdint>

#include "isinglass/bounds.hpp"
#include "isinglass/control.hpp"
#include "isinglass/greedy.hpp"
#include "isinglass/packing.hpp"

namespace isinglass {

struct SampleOptions {
  double epsilon = 0.1;
  std::uint64_t seed = 0;
};

/// Each pick is the item of largest density in a sample, without replacement, of n/k ln(1/epsilon) of the items that
/// are left, where k is the number of items of mean cost that fit (Mirzasoleiman et al. 2015, "Lazier than lazy
/// greedy", who prove 1 - 1/e - epsilon on average under a cap on the number of items; no factor is known under a
/// budget). Ends when no item that fits adds anything.
Packing stochastic_greedy(const PackingProblem& problem, const SampleOptions& options, CertificateLevel certificate,
                          Control& control);

}  // namespace isinglass
