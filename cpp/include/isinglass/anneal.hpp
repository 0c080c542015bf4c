// Simulated annealing: many independent reads down a schedule of temperatures.
#pragma once

#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/reads.hpp"

namespace isinglass {

struct AnnealOptions : ReadOptions {
  std::vector<float> t2;  // one a sweep, see kernel_temperature
  bool quench = true;     // end every read in a local minimum, below the best state that a sweep ended in
  bool trace = false;
};

Reads anneal(const Qubo& qubo, const AnnealOptions& options, Control& control);

}  // namespace isinglass
