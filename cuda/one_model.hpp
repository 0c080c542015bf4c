// Annealing and tempering of one large model by kernels that walk all replicas at once, whatever form the model takes
// on the device.
//
// A Form(batch, qubo, start) declares the arrays of its model and replicas in a batch; `fill` fills the inputs,
// `launch` walks a slice, `records` and `words` (of states, kByVariable or not) lie on the device, and `record` and
// `state` tell of a replica once all is downloaded.
#pragma once

#include <algorithm>
#include <limits>

#include "device_model.hpp"
#include "generations.hpp"
#include "isinglass/anneal.hpp"
#include "isinglass/temper.hpp"
#include "large_kernels.hpp"
#include "qubo_batch.hpp"
#include "replica_kernels.hpp"
#include "runtime.hpp"

namespace isinglass::cuda {

/// Replicas and where they begin: replica r draws its numbers as read first + r.
struct Start {
  std::uint64_t seed, first;
  std::size_t count;
  const std::uint8_t* states;  // nullptr: random ones
  std::size_t of_state;        // replicas that begin at the same one
  unsigned parts = 0;          // as of a Placement
};

/// Sweeps of one launch.
struct SweepSlice {
  const float* t2;            // one a sweep of the run, or
  const float* t2_each;       // one a replica, for the one sweep of this launch
  const std::uint32_t* over;  // by kReplicasOfRead replicas: 1 where they have ended; nullptr: none has
  std::uint32_t first, count;
  bool begins;  // the first launch
  bool keep_best;
  bool finish;             // the last one: back to the best state, and down to a local minimum
  Moves* moves = nullptr;  // counted by sweep of the run; of a dense form alone
};

/// Makes room for reads [first, first + count) in `reads`, and fills it: end(r, state) writes the state of read
/// first + r and returns its flips.
template <class End>
void take_reads(const Qubo& qubo, std::size_t first, std::size_t count, int threads, Reads& reads, End end) {
  const std::size_t n = qubo.size();
  reads.count = first + count;
  reads.states.resize(reads.count * n);
  reads.energies.resize(reads.count);
  reads.flips.resize(reads.count);
  on_threads(count, threads, [&](std::size_t r) {
    std::uint8_t* const state = reads.states.data() + (first + r) * n;
    reads.flips[first + r] = end(r, state);
  });
  energies_of(qubo, reads.states.data() + first * n, count, threads, reads.energies.data() + first);
}

/// Leaves states on the device, in rows of the placement's samples if there are such; `words` as of UnpackArgs.
inline void keep_states(const Placement& placement, std::size_t n, const std::uint32_t* words, bool by_variable,
                        const std::vector<KeptState>& kept) {
  if (placement.samples == nullptr || kept.empty()) return;
  Batch batch(placement.device);
  const auto there = batch.input<KeptState>(kept.size());
  batch.allocate();
  std::ranges::copy(kept, batch.host(there).begin());
  batch.upload();
  batch.launch(unpack_states, {static_cast<unsigned>(kept.size()), kUnpackThreads},
               UnpackArgs{batch.device(there), words, placement.samples->as<std::int8_t>(),
                          static_cast<std::uint32_t>(n), by_variable});
  batch.wait();
}

/// walk(first, count) for many generations at once, which are counted as the CPU counts them.
template <class Walk>
void walk_generations(const Qubo& qubo, const ReadOptions& options, std::size_t at_once, Control& control, Reads& reads,
                      Walk walk) {
  const double begin_seconds = control.seconds();
  for (std::size_t first = 0; first < options.num_reads;) {
    const std::size_t count = std::min(at_once, options.num_reads - first), whole = reads.count;
    walk(first, count);
    first += count;
    if (control.reason() != StopReason::none && whole > 0) reads.count = whole;  // these ones were cut short
    if (control.stop()) break;
    const double lowest = *std::min_element(reads.energies.begin(), reads.energies.end());
    if (options.target_energy && lowest <= *options.target_energy) break;
  }
  count_generations(options.target_energy, control.reason(), qubo.size(), reads);
  reads.search_seconds = control.seconds() - begin_seconds;
}

template <class Form>
Reads anneal_one(const Qubo& qubo, const AnnealOptions& options, const Placement& placement, Control& control) {
  constexpr std::size_t kReadsAtOnce = 4096;  // more than run at once on any device
  const std::size_t n = qubo.size(), sweeps = options.t2.size();
  Reads reads;
  walk_generations(qubo, options, kReadsAtOnce, control, reads, [&](std::size_t first, std::size_t count) {
    const std::uint8_t* const given = options.initial_states;
    Batch batch(placement.device);
    Form form(batch, qubo,
              {options.seed, first, count, given != nullptr ? given + first * n : nullptr, 1, placement.parts});
    const auto t2 = batch.input<float>(sweeps);
    batch.allocate();
    form.fill();
    std::ranges::copy(options.t2, batch.host(t2).begin());
    batch.upload();
    const auto launch = [&](std::uint64_t sweep, std::uint64_t more, bool last) {
      form.launch({batch.device(t2), nullptr, nullptr, static_cast<std::uint32_t>(sweep),
                   static_cast<std::uint32_t>(more), sweep == 0, options.quench, last && options.quench && sweeps > 0});
    };
    const std::uint64_t swept = in_slices(
        batch, sweeps, first_slice(placement, n * count, n), control, [&](std::uint64_t sweep, std::uint64_t more) {
          launch(sweep, more, sweep + more == sweeps);
          if (options.report) control.report(static_cast<double>(sweep + more) / static_cast<double>(sweeps));
        });
    if (swept < sweeps || sweeps == 0) launch(swept, 0, true);
    batch.download();
    batch.wait();
    std::vector<KeptState> kept(count);
    take_reads(qubo, first, count, options.threads, reads, [&](std::size_t r, std::uint8_t* state) {
      form.state(r, state);
      kept[r] = {static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(first + r)};
      return form.record(r).flips;
    });
    keep_states(placement, n, form.words(), Form::kByVariable, kept);
  });
  return reads;
}

/// After each sweep a launch exchanges, without a word to the host.
template <class Form>
Tempered temper_one(const Qubo& qubo, const TemperOptions& options, const Placement& placement, Control& control) {
  constexpr std::size_t kReadsAtOnce = 256;
  const std::size_t n = qubo.size();
  const std::vector<double> temperatures = first_ladder(options.window, n);
  Tempered found;
  walk_generations(qubo, options, kReadsAtOnce, control, found.reads, [&](std::size_t first, std::size_t count) {
    const std::size_t replicas = count * kReplicasOfRead;
    const std::uint8_t* const given = options.initial_states;
    Batch batch(placement.device);
    Form form(batch, qubo,
              {options.seed, first * kReplicasOfRead, replicas, given != nullptr ? given + first * n : nullptr,
               kReplicasOfRead, placement.parts});
    const auto first_rungs = batch.input<double>(temperatures.size());
    const auto ladders = batch.output<Ladder>(count);
    const auto t2_each = batch.scratch<float>(replicas);
    const auto over = batch.scratch<std::uint32_t>(count);
    batch.allocate();
    form.fill();
    std::ranges::copy(temperatures, batch.host(first_rungs).begin());
    batch.upload();
    ExchangeArgs args{form.records(),
                      batch.device(ladders),
                      batch.device(first_rungs),
                      batch.device(t2_each),
                      batch.device(over),
                      options.seed,
                      first,
                      qubo.scale(),
                      qubo.view().offset,
                      options.target_energy.value_or(-std::numeric_limits<double>::infinity()),
                      static_cast<std::uint32_t>(temperatures.size()),
                      0,
                      options.num_sweeps,
                      true};
    const auto exchange_after = [&](std::uint32_t sweep) {
      args.sweep = sweep;
      batch.launch(exchange, {static_cast<unsigned>(count), 32}, args);
      args.begins = false;
    };
    exchange_after(0);
    const std::uint64_t swept =
        in_slices(batch, options.num_sweeps, first_slice(placement, replicas * n, n), control,
                  [&](std::uint64_t begin, std::uint64_t more) {
                    for (auto k = static_cast<std::uint32_t>(begin); k < begin + more; ++k) {
                      form.launch({nullptr, batch.device(t2_each), batch.device(over), k, 1, k == 0, true, false});
                      exchange_after(k);
                    }
                    if (options.report) {
                      control.report(static_cast<double>(begin + more) / static_cast<double>(options.num_sweeps));
                    }
                  });
    form.launch(
        {nullptr, batch.device(t2_each), nullptr, static_cast<std::uint32_t>(swept), 0, swept == 0, true, true});
    batch.download();
    batch.wait();
    if (first == 0) describe_ladder(batch.host(ladders)[0], found);
    std::vector<KeptState> kept(count);
    take_reads(qubo, first, count, options.threads, found.reads, [&](std::size_t r, std::uint8_t* state) {
      std::size_t lowest = r * kReplicasOfRead;
      std::uint64_t flips = 0;
      for (std::size_t k = r * kReplicasOfRead; k < (r + 1) * kReplicasOfRead; ++k) {
        if (form.record(k).energy < form.record(lowest).energy) lowest = k;
        flips += form.record(k).flips;
      }
      form.state(lowest, state);
      kept[r] = {static_cast<std::uint32_t>(lowest), static_cast<std::uint32_t>(first + r)};
      return flips;
    });
    keep_states(placement, n, form.words(), Form::kByVariable, kept);
  });
  return found;
}

}  // namespace isinglass::cuda
