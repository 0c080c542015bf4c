// Parallel tempering: a read is a ladder of replicas at fixed temperatures that exchange them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/ladder.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/reads.hpp"
#include "isinglass/schedule.hpp"

namespace isinglass {

struct TemperOptions : ReadOptions {
  std::uint32_t num_sweeps = 1000;
  Window window;  // ends of the ladder, in integer units, hot > cold > 0 (or both 0: a model without terms)
};

/// Reads with their ladders. After every sweep neighbours in temperature exchange theirs with probability
/// min(1, exp((b1 - b2) (E1 - E2))). At sweeps 16, 32, 64 ... of the first half the ladder moves to where all its
/// exchanges are refused equally often, from the counts since the last move. A read ends in the best state that any of
/// its replicas ended a sweep in, quenched; it ends early, at a multiple of 64 sweeps, below the target.
struct Tempered {
  Reads reads;
  std::vector<double> ladder;      // of the first read at its end: temperatures in integer units, hot first
  std::vector<double> swap_rates;  // of its neighbours, since the ladder last moved
};

/// The ladder that a read begins with: temperatures in integer units.
std::vector<double> first_ladder(const Window& window, std::size_t variables);
/// Sets what a result says of its ladder.
void describe_ladder(const Ladder& ladder, Tempered& result);

Tempered temper(const Qubo& qubo, const TemperOptions& options, Control& control);

}  // namespace isinglass
