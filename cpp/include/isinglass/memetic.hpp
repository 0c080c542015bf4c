// Memetic search: a short anneal fills a pool, then children of two members are improved by tabu search and replace the
// worst, until the pool has nothing more to give; then another pool (Z. Lü, F. Glover and J.-K. Hao 2010, "A hybrid
// metaheuristic approach to solving the UBQP problem").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/reads.hpp"
#include "isinglass/tabu.hpp"

namespace isinglass {

struct MemeticOptions {
  std::size_t pool_size = 16;
  std::size_t generations = 0;  // children of a pool; 0: until 2 * pool_size in a row have not entered it
  std::size_t restarts = 0;     // pools; 0: until two have come to the same lowest energy, kMostRestarts at most
  std::uint64_t patience = 0;   // of a child's tabu search; 0: by size
  Tenure tenure{};
  std::uint64_t seed = 0;
  int threads = 1;
  const std::uint8_t* initial_states = nullptr;  // members of the first pool
  std::size_t num_initial_states = 0;
  std::optional<double> target_energy;
  double until = 0;      // > 0: new pools until the control stops, at so many seconds
  std::size_t keep = 1;  // best distinct states to return
  bool widen = false;    // those states may be neighbours of what the search came to
  bool trace = false;    // per child, the lowest energy so far
  bool report = true;
};

inline constexpr std::size_t kMostRestarts = 16;

struct MemeticResult {
  Reads reads;  // the best distinct states, by energy; `generations` are pools, `flips` the moves of all children
  std::uint64_t children = 0;
};

/// One pool after another; pool p is a function of the seed and p alone, so threads share pools out.
MemeticResult memetic(const Qubo& qubo, const MemeticOptions& options, Control& control);

}  // namespace isinglass
