// Proof by search: branch and bound over a QUBO, with persistency and the roof dual bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/qubo.hpp"

namespace isinglass {

struct ExactOptions {
  std::size_t num_solutions = 1;  // the best distinct states
  std::optional<std::uint64_t> node_limit;
  std::uint64_t seed = 0;                        // of the anneal that gives the first states
  const std::uint8_t* initial_states = nullptr;  // num_initial * n more first states
  std::size_t num_initial = 0;
  std::size_t memory_limit = SIZE_MAX;  // bytes
};

/// What branch and bound came to. The integer image decides, exactly, where it states the model to the last places of
/// float64; else states are told apart by their energies from the caller's numbers, and nothing within the error of the
/// image is cut off. When `proved`, no state that is not listed has an energy below the last one listed
/// (or none is left). No state at all has an energy below `lower_bound`.
struct Proof {
  std::size_t count = 0;
  std::vector<std::uint8_t> states;  // count * n, by energy, then as 0/1 words
  std::vector<double> energies;      // from the caller's numbers
  double lower_bound = 0;
  double root_bound = 0;
  bool proved = false;
  std::uint64_t nodes = 0;
  std::size_t reduced = 0;  // variables that were gone before the search
  StopReason stopped = StopReason::none;
  double start_seconds = 0;
  double search_seconds = 0;
};

/// One thread, depth first; the same proof for the same model and seed, node for node.
/// Throws std::length_error when the posiform of what reduction left needs more than the memory limit.
Proof exact(const Qubo& qubo, const ExactOptions& options, Control& control);

}  // namespace isinglass
