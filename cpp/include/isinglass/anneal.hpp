// Simulated annealing: many independent reads down a schedule of temperatures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/replicas.hpp"

namespace isinglass {

/// Reads between two looks at the clock or the target.
inline constexpr std::size_t kReadsPerGeneration = 64;

struct AnnealOptions {
  std::size_t num_reads = 1;
  std::vector<float> t2;  // one a sweep, see kernel_temperature
  bool quench = true;     // end every read in a local minimum, below the best state that a sweep ended in
  std::uint64_t seed = 0;
  int threads = 1;
  std::optional<Layout> layout;
  const std::uint8_t* initial_states = nullptr;  // num_reads * n, or nullptr: random
  std::optional<double> target_energy;
  bool trace = false;
  bool report = true;  // progress, to the control
};

/// The reads of a search, in read order. A run that stopped early holds those of whole generations; one that stopped
/// within its first holds what had begun of that one, cut short where it stood (and
/// quenched, if it would have been).
struct Reads {
  std::size_t count = 0;
  std::vector<std::uint8_t> states;  // count * n
  std::vector<double> energies;      // from the caller's numbers
  std::vector<std::uint64_t> flips;
  std::vector<double> trace;  // per sweep, the lowest energy of any read so far
  std::size_t generations = 0;
  Layout layout = Layout::lanes32;
  StopReason stopped = StopReason::none;
  bool target_reached = false;
  double search_seconds = 0;
};

Reads anneal(const Qubo& qubo, const AnnealOptions& options, Control& control);

}  // namespace isinglass
