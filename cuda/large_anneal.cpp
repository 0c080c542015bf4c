#include "large_anneal.hpp"

#include <algorithm>
#include <limits>

#include "generations.hpp"
#include "isinglass/parallel.hpp"
#include "isinglass/tabu.hpp"
#include "large_batch.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::size_t kReadsAtOnce = 4096;  // more than run at once on any device
constexpr double kFirstAttempts = 4e8;      // of all reads in the first launch: some milliseconds

/// Walks reads [first, first + count), and adds them to `reads`.
void walk(const Qubo& qubo, const AnnealOptions& options, int device, std::size_t first, std::size_t count,
          Control& control, Reads& reads) {
  const std::size_t n = qubo.size(), words = words_of(n), sweeps = options.t2.size();
  Batch batch(device);
  const LargeRows rows(batch, qubo);
  const auto t2 = batch.input<float>(sweeps);
  const auto given = batch.input<std::uint32_t>(options.initial_states != nullptr ? count * words : 0);
  const auto states = batch.output<std::uint32_t>(count * words);
  const auto records = batch.output<LargeRecord>(count);
  const auto bests = batch.scratch<std::uint32_t>(count * words);
  const auto fields = batch.scratch<std::int32_t>(count * field_count(n));
  batch.allocate();
  rows.fill();
  std::copy(options.t2.begin(), options.t2.end(), batch.host(t2).begin());
  for (std::size_t r = 0; given.count > 0 && r < count; ++r) {
    pack(options.initial_states + (first + r) * n, n, batch.host(given).data() + r * words);
  }
  batch.upload();

  LargeSweepArgs args{};
  args.model = rows.device();
  args.seed = options.seed;
  args.first_read = first;
  args.records = batch.device(records);
  args.states = batch.device(states);
  args.given = given.count > 0 ? batch.device(given) : nullptr;
  args.bests = batch.device(bests);
  args.fields = batch.device(fields);
  args.t2 = batch.device(t2);
  args.keep_best = options.quench;
  const Kernel& kernel = rows.pick(large_sweep_8, large_sweep_16, large_sweep_32);
  const auto launch = [&](std::uint64_t sweep, std::uint64_t more, bool finish) {
    args.begins = sweep == 0;
    args.first = static_cast<std::uint32_t>(sweep);
    args.count = static_cast<std::uint32_t>(more);
    args.finish = finish && options.quench && sweeps > 0;
    batch.launch(kernel, {static_cast<unsigned>(count), rows.threads(), sweep_bytes(n)}, args);
  };
  const double attempts = static_cast<double>(std::max<std::size_t>(1, n * count));
  const std::uint64_t swept =
      in_slices(batch, sweeps, static_cast<std::uint64_t>(kFirstAttempts / attempts), control,
                [&](std::uint64_t sweep, std::uint64_t more) {
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
  Control free(std::numeric_limits<double>::infinity());
  parallel_for(count, options.threads, free, [&](std::size_t r) {
    std::uint8_t* const state = reads.states.data() + (first + r) * n;
    unpack(batch.host(states).data() + r * words, n, state);
    energies(qubo.view(), state, 1, reads.energies.data() + first + r);
    reads.flips[first + r] = batch.host(records)[r].flips;
  });
}

}  // namespace

Reads large_anneal(const Qubo& qubo, const AnnealOptions& options, int device, Control& control) {
  const double begin_seconds = control.seconds();
  Reads reads;
  for (std::size_t first = 0; first < options.num_reads;) {
    const std::size_t count = std::min(kReadsAtOnce, options.num_reads - first);
    const std::size_t whole = reads.count;
    walk(qubo, options, device, first, count, control, reads);
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
