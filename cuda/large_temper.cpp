#include "large_temper.hpp"

#include <algorithm>
#include <limits>

#include "generations.hpp"
#include "isinglass/tabu.hpp"
#include "large_batch.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::size_t kReadsAtOnce = 256;

/// Walks reads [first, first + count), and adds them to those found.
void walk(const Qubo& qubo, const TemperOptions& options, const Placement& placement, std::size_t first,
          std::size_t count, Control& control, Tempered& found) {
  const std::size_t n = qubo.size(), words = words_of(n), replicas = count * kLadderReplicas;
  const std::vector<double> temperatures = first_ladder(options.window, n);
  Batch batch(placement.device);
  const LargeRows rows(batch, qubo);
  const auto ladder = batch.input<double>(temperatures.size());
  const auto given = batch.input<std::uint32_t>(options.initial_states != nullptr ? replicas * words : 0);
  const auto states = batch.output<std::uint32_t>(replicas * words);
  const auto records = batch.output<LargeRecord>(replicas);
  const auto ladders = batch.output<Ladder>(count);
  const auto bests = batch.scratch<std::uint32_t>(replicas * words);
  const auto fields = batch.scratch<std::int32_t>(replicas * field_count(n));
  const auto t2_each = batch.scratch<float>(replicas);
  const auto over = batch.scratch<std::uint32_t>(count);
  batch.allocate();
  rows.fill();
  std::ranges::copy(temperatures, batch.host(ladder).begin());
  for (std::size_t r = 0; options.initial_states != nullptr && r < replicas; ++r) {
    pack(options.initial_states + (first + r / kLadderReplicas) * n, n, batch.host(given).data() + r * words);
  }
  batch.upload();

  LargeExchangeArgs exchange{batch.device(records),
                             batch.device(ladders),
                             batch.device(ladder),
                             batch.device(t2_each),
                             batch.device(over),
                             options.seed,
                             first,
                             qubo.scale(),
                             qubo.view().offset,
                             options.target_energy.value_or(-std::numeric_limits<double>::infinity()),
                             static_cast<std::uint32_t>(rungs_of(n)),
                             0,
                             options.num_sweeps,
                             true};
  LargeSweepArgs args{};
  args.model = rows.device();
  args.seed = options.seed;
  args.first_read = first * kLadderReplicas;
  args.records = batch.device(records);
  args.states = batch.device(states);
  args.given = options.initial_states != nullptr ? batch.device(given) : nullptr;
  args.bests = batch.device(bests);
  args.fields = batch.device(fields);
  args.t2_each = batch.device(t2_each);
  args.keep_best = true;
  const auto sweep = [&](std::uint32_t k, std::uint32_t sweeps, bool finish) {
    args.over = finish ? nullptr : batch.device(over);
    args.first = k;
    args.count = sweeps;
    args.begins = k == 0;
    args.finish = finish;
    batch.launch(rows.pick(large_sweep_8, large_sweep_16, large_sweep_32),
                 {static_cast<unsigned>(replicas), rows.threads(), sweep_bytes(n)}, args);
  };
  const auto exchange_after = [&](std::uint32_t k, bool begins) {
    exchange.sweep = k;
    exchange.begins = begins;
    batch.launch(large_exchange, {static_cast<unsigned>(count), 32}, exchange);
  };
  exchange_after(0, true);
  const std::uint64_t swept =
      in_slices(batch, options.num_sweeps, first_slice(placement, replicas * n, n), control,
                [&](std::uint64_t begin, std::uint64_t more) {
                  for (std::uint64_t k = begin; k < begin + more; ++k) {
                    sweep(static_cast<std::uint32_t>(k), 1, false);
                    exchange_after(static_cast<std::uint32_t>(k), false);
                  }
                  if (options.report) {
                    control.report(static_cast<double>(begin + more) / static_cast<double>(options.num_sweeps));
                  }
                });
  sweep(static_cast<std::uint32_t>(swept), 0, true);
  batch.download();
  batch.wait();

  Reads& reads = found.reads;
  if (first == 0) describe_ladder(batch.host(ladders)[0], found);
  reads.count = first + count;
  reads.states.resize(reads.count * n);
  reads.energies.resize(reads.count);
  reads.flips.resize(reads.count);
  on_threads(count, options.threads, [&](std::size_t r) {
    const auto own = batch.host(records).subspan(r * kLadderReplicas, kLadderReplicas);
    const auto lowest = std::ranges::min_element(own, {}, &LargeRecord::energy) - own.begin();
    std::uint8_t* const state = reads.states.data() + (first + r) * n;
    unpack(batch.host(states).data() + (r * kLadderReplicas + static_cast<std::size_t>(lowest)) * words, n, state);
    energies(qubo.view(), state, 1, reads.energies.data() + first + r);
    reads.flips[first + r] = 0;
    for (const LargeRecord& record : own) reads.flips[first + r] += record.flips;
  });
}

}  // namespace

Tempered large_temper(const Qubo& qubo, const TemperOptions& options, const Placement& placement, Control& control) {
  const double begin_seconds = control.seconds();
  Tempered found;
  Reads& reads = found.reads;
  for (std::size_t first = 0; first < options.num_reads;) {
    const std::size_t count = std::min(kReadsAtOnce, options.num_reads - first), whole = reads.count;
    walk(qubo, options, placement, first, count, control, found);
    first += count;
    if (control.reason() != StopReason::none && whole > 0) reads.count = whole;  // these ones were cut short
    if (control.stop()) break;
    const double lowest = *std::min_element(reads.energies.begin(), reads.energies.end());
    if (options.target_energy && lowest <= *options.target_energy) break;
  }
  count_generations(options.target_energy, control.reason(), qubo.size(), reads);
  reads.search_seconds = control.seconds() - begin_seconds;
  return found;
}

}  // namespace isinglass::cuda
