#include "isinglass/descent.hpp"

#include <vector>

#include "isinglass/parallel.hpp"

namespace isinglass {
namespace {

/// Takes a state down in place; returns the flips.
std::uint64_t steepest(const Qubo& qubo, std::uint8_t* x, Control& control) {
  constexpr std::uint64_t kFlipsPerLook = 1024;
  const SparseRows& rows = qubo.sparse_rows();
  const std::size_t n = qubo.size();
  // What each flip changes the energy by.
  std::vector<std::int32_t> cost(qubo.linear().begin(), qubo.linear().end());
  const auto couplings = [&](std::size_t i) {
    return std::span(rows.entries)
        .subspan(static_cast<std::size_t>(rows.start[i]), static_cast<std::size_t>(rows.start[i + 1] - rows.start[i]));
  };
  for (std::size_t i = 0; i < n; ++i) {
    for (const Coupling& c : couplings(i)) {
      if (x[c.neighbour]) cost[i] += c.weight;
    }
    if (x[i]) cost[i] = -cost[i];
  }
  std::uint64_t flips = 0;
  while (n > 0) {
    const auto best = static_cast<std::size_t>(std::min_element(cost.begin(), cost.end()) - cost.begin());
    if (cost[best] >= 0) break;
    x[best] ^= 1;
    cost[best] = -cost[best];
    for (const Coupling& c : couplings(best)) {
      const auto j = static_cast<std::size_t>(c.neighbour);
      cost[j] += x[best] == x[j] ? -c.weight : c.weight;
    }
    if (++flips % kFlipsPerLook == 0 && control.stop()) break;
  }
  return flips;
}

}  // namespace

Reads descend(const Qubo& qubo, Descent rule, const ReadOptions& options, Control& control) {
  Reads reads;
  reads.layout = rule == Descent::steepest ? Layout::sparse
                 : options.layout          ? *options.layout
                                           : choose_layout(qubo, options.num_reads);
  const std::size_t n = qubo.size();
  run_generations(qubo, options, control, reads, [&](std::size_t first, std::size_t count) {
    const auto walk = [&](std::size_t begin, std::size_t size) {
      std::uint8_t* const states = reads.states.data() + begin * n;
      if (rule == Descent::first) {
        Replicas replicas(qubo, reads.layout, options.seed, begin, size);
        options.initial_states ? replicas.begin(options.initial_states + begin * n) : replicas.begin_random();
        replicas.quench();
        replicas.end(states);
        for (std::size_t r = 0; r < size; ++r) reads.flips[begin + r] = replicas.flips(r);
      } else {
        for (std::size_t r = 0; r < size; ++r) {
          if (options.initial_states) {
            std::copy_n(options.initial_states + (begin + r) * n, n, states + r * n);
          } else {
            random_state(options.seed, begin + r, n, states + r * n);
          }
          reads.flips[begin + r] = steepest(qubo, states + r * n, control);
        }
      }
      energies(qubo.view(), states, size, reads.energies.data() + begin);
    };
    return in_blocks(count, rule == Descent::first ? capacity(reads.layout) : 1, options.threads, control,
                     [&](std::size_t begin, std::size_t size) { walk(first + begin, size); });
  });
  return reads;
}

}  // namespace isinglass
