#include "isinglass/anneal.hpp"

#include <atomic>
#include <limits>

namespace isinglass {
namespace {

constexpr std::size_t kAttemptsPerSlice = std::size_t{1} << 18;  // between two looks at the control: milliseconds
constexpr std::int64_t kNoEnergy = std::numeric_limits<std::int64_t>::max();

}  // namespace

Reads anneal(const Qubo& qubo, const AnnealOptions& options, Control& control) {
  Reads reads;
  reads.layout = options.layout ? *options.layout : choose_layout(qubo, options.num_reads);
  const std::size_t n = qubo.size(), step = capacity(reads.layout);
  const auto sweeps = static_cast<std::uint32_t>(options.t2.size());
  const auto slice =
      static_cast<std::uint32_t>(std::max<std::size_t>(1, kAttemptsPerSlice / std::max<std::size_t>(1, n) / step));
  const double all_sweeps = static_cast<double>(sweeps) * static_cast<double>(options.num_reads);
  std::atomic<double> swept{0};
  std::vector<std::int64_t> lowest(options.trace ? sweeps : 0, kNoEnergy);  // of any read, by sweep

  const auto walk = [&](std::size_t first, std::size_t count, std::int64_t* trace) {
    Replicas replicas(qubo, reads.layout, options.seed, first, count);
    options.initial_states ? replicas.begin(options.initial_states + first * n) : replicas.begin_random();
    bool cut = control.reason() != StopReason::none;
    for (std::uint32_t k = 0; k < sweeps && !cut; k += slice) {
      const std::uint32_t run = std::min(slice, sweeps - k);
      replicas.sweep({k, run, options.t2.data() + k, trace == nullptr ? nullptr : trace + k, options.quench});
      if (options.report) {
        control.report((swept += static_cast<double>(run) * static_cast<double>(count)) / all_sweeps);
      }
      cut = k + run < sweeps && control.stop();
    }
    if (options.quench && sweeps > 0) {
      replicas.return_to_best();
      replicas.quench();
    }
    std::uint8_t* const states = reads.states.data() + first * n;
    replicas.end(states);
    energies(qubo.view(), states, count, reads.energies.data() + first);
    for (std::size_t r = 0; r < count; ++r) reads.flips[first + r] = replicas.flips(r);
  };

  run_generations(qubo, options, control, reads, [&](std::size_t first, std::size_t count) {
    std::vector<std::int64_t> traces(options.trace ? (count + step - 1) / step * sweeps : 0, kNoEnergy);
    const std::size_t walked =
        in_blocks(count, step, options.threads, control, [&](std::size_t begin, std::size_t size) {
          walk(first + begin, size, options.trace ? traces.data() + begin / step * sweeps : nullptr);
        });
    for (std::size_t k = 0; k < traces.size(); ++k) {
      lowest[k % sweeps] = std::min(lowest[k % sweeps], traces[k]);
    }
    return walked;
  });

  std::int64_t so_far = kNoEnergy;
  for (std::int64_t energy : lowest) {
    so_far = std::min(so_far, energy);
    if (so_far == kNoEnergy) break;  // stopped before this sweep
    reads.trace.push_back(static_cast<double>(so_far) / qubo.scale() + qubo.view().offset);
  }
  return reads;
}

}  // namespace isinglass
