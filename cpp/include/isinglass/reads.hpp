// What every search returns: reads, in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/replicas.hpp"

namespace isinglass {

/// Reads between two looks at the clock or the target.
inline constexpr std::size_t kReadsPerGeneration = 64;

/// What all searches are told.
struct ReadOptions {
  std::size_t num_reads = 1;
  std::uint64_t seed = 0;
  int threads = 1;
  std::optional<Layout> layout;
  const std::uint8_t* initial_states = nullptr;  // num_reads * n, or nullptr: random
  std::optional<double> target_energy;
  bool report = true;  // progress, to the control
};

/// The reads of a search, in read order. A run that stopped early holds those of whole generations; one that stopped
/// within its first holds what had begun of that one, cut short where it stood (and quenched, if it would have been).
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

/// body(first, size) for blocks of `step` reads of `count`, on threads. How many reads were walked: all, unless the
/// control stopped; then the first ones, at least one block.
std::size_t in_blocks(std::size_t count, std::size_t step, int threads, Control& control,
                      const std::function<void(std::size_t, std::size_t)>& body);

/// Generations of reads until `options.num_reads` are done, the target is reached or the control stops.
/// `generation(first, count)` walks reads [first, first + count), whose places in `reads` it fills, and returns how
/// many it walked: fewer only if the control stopped, but at least one.
template <class Generation>
void run_generations(const Qubo& qubo, const ReadOptions& options, Control& control, Reads& reads,
                     Generation generation) {
  const double begin_seconds = control.seconds();
  const auto hold = [&](std::size_t count) {
    reads.states.resize(count * qubo.size());
    reads.energies.resize(count);
    reads.flips.resize(count);
  };
  while (reads.count < options.num_reads) {
    const std::size_t wanted = std::min(kReadsPerGeneration, options.num_reads - reads.count);
    hold(reads.count + wanted);
    const std::size_t walked = generation(reads.count, wanted);
    reads.stopped = control.reason();
    if (reads.stopped != StopReason::none && reads.generations > 0) break;  // this one is not whole
    const auto begin = reads.energies.begin() + static_cast<std::ptrdiff_t>(reads.count);
    reads.count += walked;
    reads.target_reached =
        options.target_energy &&
        *std::min_element(begin, begin + static_cast<std::ptrdiff_t>(walked)) <= *options.target_energy;
    if (reads.stopped != StopReason::none) break;
    ++reads.generations;
    if (reads.target_reached) break;
  }
  hold(reads.count);
  reads.search_seconds = control.seconds() - begin_seconds;
}

}  // namespace isinglass
