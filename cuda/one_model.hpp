// Annealing of one model by a kernel that walks all reads at once, whatever form the model takes on the device.
#pragma once

#include <algorithm>
#include <limits>

#include "generations.hpp"
#include "isinglass/anneal.hpp"
#include "qubo_batch.hpp"
#include "runtime.hpp"

namespace isinglass::cuda {

/// Sweeps of one launch.
struct SweepSlice {
  std::uint32_t first, count;
  bool begins;  // the first launch
  bool finish;  // the last one: back to the best state, and down to a local minimum
};

/// Reads [first, first + count), added to `reads`. A Form declares the arrays of these reads and its model in a batch;
/// `fill` fills the inputs, `launch` walks a slice, and `state` and `flips` tell of a read once all is downloaded.
template <class Form>
void walk_reads(const Qubo& qubo, const AnnealOptions& options, const Placement& placement, std::size_t first,
                std::size_t count, Control& control, Reads& reads) {
  const std::size_t n = qubo.size(), sweeps = options.t2.size();
  Batch batch(placement.device);
  Form form(batch, qubo, options, first, count);
  batch.allocate();
  form.fill();
  batch.upload();
  const auto launch = [&](std::uint64_t sweep, std::uint64_t more, bool last) {
    form.launch({static_cast<std::uint32_t>(sweep), static_cast<std::uint32_t>(more), sweep == 0,
                 last && options.quench && sweeps > 0});
  };
  const std::uint64_t swept = in_slices(
      batch, sweeps, first_slice(placement, n * count, n), control, [&](std::uint64_t sweep, std::uint64_t more) {
        launch(sweep, more, sweep + more == sweeps);
        if (options.report) control.report(static_cast<double>(sweep + more) / static_cast<double>(sweeps));
      });
  if (swept < sweeps || sweeps == 0) launch(swept, 0, true);
  batch.download();
  batch.wait();
  reads.count = first + count;
  reads.states.resize(reads.count * n);
  reads.energies.resize(reads.count);
  reads.flips.resize(reads.count);
  on_threads(count, options.threads, [&](std::size_t r) {
    std::uint8_t* const state = reads.states.data() + (first + r) * n;
    form.state(r, state);
    energies(qubo.view(), state, 1, reads.energies.data() + first + r);
    reads.flips[first + r] = form.flips(r);
  });
}

/// Generations are walked many at once, and counted as the CPU counts them.
template <class Form>
Reads anneal_one(const Qubo& qubo, const AnnealOptions& options, const Placement& placement, Control& control) {
  constexpr std::size_t kReadsAtOnce = 4096;  // more than run at once on any device
  const double begin_seconds = control.seconds();
  Reads reads;
  for (std::size_t first = 0; first < options.num_reads;) {
    const std::size_t count = std::min(kReadsAtOnce, options.num_reads - first), whole = reads.count;
    walk_reads<Form>(qubo, options, placement, first, count, control, reads);
    first += count;
    if (control.reason() != StopReason::none && whole > 0) reads.count = whole;  // these ones were cut short
    if (control.stop()) break;
    const double lowest = *std::min_element(reads.energies.begin(), reads.energies.end());
    if (options.target_energy && lowest <= *options.target_energy) break;
  }
  count_generations(options.target_energy, control.reason(), qubo.size(), reads);
  reads.search_seconds = control.seconds() - begin_seconds;
  return reads;
}

}  // namespace isinglass::cuda
