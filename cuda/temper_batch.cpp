#include "temper_batch.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "runtime.hpp"
#include "temper_kernels.hpp"

namespace isinglass::cuda {
namespace {

/// A job under way.
struct Walk {
  Walk(const TemperJob& job_in, Tempered& tempered_in)
      : job(job_in), tempered(tempered_in), hand(*job.qubo, job.options, tempered.reads) {}

  std::size_t bytes(RowShape shape, std::size_t reads) const {
    return job.qubo->size() * (shape.row_bytes() + sizeof(std::int32_t)) +
           reads * (sizeof(TemperRead) + sizeof(TemperRecord) + sizeof(TemperEnd));
  }

  const TemperJob& job;
  Tempered& tempered;
  ReadsInHand hand;
};

TemperProblem problem_of(const Walk& walk, std::size_t rows, std::size_t linear) {
  const Qubo& qubo = *walk.job.qubo;
  const TemperOptions& options = walk.job.options;
  TemperProblem problem{.seed = options.seed,
                        .rows = rows,
                        .linear = linear,
                        .temperatures = {},
                        .scale = qubo.scale(),
                        .offset = qubo.view().offset,
                        .target = options.target_energy.value_or(-std::numeric_limits<double>::infinity()),
                        .n = static_cast<std::uint32_t>(qubo.size())};
  std::ranges::copy(first_ladder(options.window, qubo.size()), problem.temperatures);
  return problem;
}

/// One launch, sliced, of reads of walks that share a kernel and the number of sweeps.
void run(std::span<Walk* const> walks, std::span<const std::size_t> wanted, RowShape shape, const Placement& placement,
         int threads, bool stopped, Control& control) {
  const TemperOptions& shared = walks[0]->job.options;
  const bool starts_given = shared.initial_states != nullptr;
  std::vector<TemperProblem> problems;
  std::vector<TemperRead> reads;
  std::vector<std::size_t> place;  // of the first read of a problem
  std::size_t rows = 0, linear = 0, attempts = 0, largest = 0;
  for (std::size_t p = 0; p < walks.size(); ++p) {
    const std::size_t n = walks[p]->job.qubo->size();
    problems.push_back(problem_of(*walks[p], rows, linear));
    place.push_back(reads.size());
    for (std::size_t r = 0; r < wanted[p]; ++r) {
      reads.push_back({static_cast<std::uint32_t>(p), walks[p]->tempered.reads.count + r});
    }
    rows += n * shape.row_bytes() / sizeof(std::uint32_t);
    linear += n;
    attempts += wanted[p] * n * kLadderReplicas;
    largest = std::max(largest, n);
  }

  Batch batch(placement.device);
  const auto problem_array = batch.input<TemperProblem>(problems.size());
  const auto read_array = batch.input<TemperRead>(reads.size());
  const auto row_array = batch.input<std::uint32_t>(rows);
  const auto linear_array = batch.input<std::int32_t>(linear);
  const auto start_array = batch.input<std::uint32_t>(starts_given ? reads.size() * kMostBlocks : 0);
  const auto end_array = batch.output<TemperEnd>(reads.size());
  const auto record_array = batch.scratch<TemperRecord>(reads.size());
  batch.allocate();
  std::ranges::copy(problems, batch.host(problem_array).begin());
  std::ranges::copy(reads, batch.host(read_array).begin());
  on_threads(walks.size(), threads, [&](std::size_t p) {
    const Qubo& qubo = *walks[p]->job.qubo;
    pack_rows(qubo, shape, batch.host(row_array).data() + problems[p].rows);
    std::ranges::copy(qubo.linear(), batch.host(linear_array).data() + problems[p].linear);
    for (std::size_t r = 0; starts_given && r < wanted[p]; ++r) {
      pack_state(walks[p]->job.options.initial_states + (walks[p]->tempered.reads.count + r) * qubo.size(), qubo.size(),
                 batch.host(start_array).data() + (place[p] + r) * kMostBlocks);
    }
  });

  batch.upload();
  const std::uint32_t sweeps = shared.num_sweeps;
  TemperArgs args{.problems = batch.device(problem_array),
                  .reads = batch.device(read_array),
                  .rows = batch.device(row_array),
                  .linear = batch.device(linear_array),
                  .starts = starts_given ? batch.device(start_array) : nullptr,
                  .records = batch.device(record_array),
                  .ends = batch.device(end_array),
                  .first_sweep = 0,
                  .num_sweeps = 0,
                  .all_sweeps = sweeps,
                  .begin = true,
                  .end = false};
  const Shape grid{static_cast<unsigned>(reads.size()), kTemperThreads, kTemperRows + shape.shared_bytes(largest)};
  const auto launch = [&](std::uint64_t first, std::uint64_t count, bool end) {
    args.first_sweep = static_cast<std::uint32_t>(first);
    args.num_sweeps = static_cast<std::uint32_t>(count);
    args.begin = first == 0;
    args.end = end;
    batch.launch(temper_kernel(shape), grid, args);
  };
  std::uint64_t swept = 0;
  if (!stopped) {
    swept = in_slices(batch, sweeps, first_slice(placement, attempts, largest), control,
                      [&](std::uint64_t first, std::uint64_t count) { launch(first, count, first + count == sweeps); });
  }
  if (swept < sweeps) launch(swept, 0, true);
  batch.download();
  batch.wait();

  const StopReason reason = swept < sweeps ? control.reason() : StopReason::none;
  on_threads(walks.size(), threads, [&](std::size_t p) {
    const TemperEnd* const ends = batch.host(end_array).data() + place[p];
    if (walks[p]->tempered.reads.count == 0) describe_ladder(ends[0].ladder, walks[p]->tempered);
    walks[p]->hand.take(
        wanted[p], reason, [&](std::size_t r) { return ends[r].state; }, [&](std::size_t r) { return ends[r].flips; });
  });
}

}  // namespace

std::vector<Tempered> temper(std::span<const TemperJob> jobs, const Placement& placement, int threads,
                             Control& control) {
  std::vector<Tempered> found(jobs.size());
  const double begin_seconds = control.seconds();
  check_device(placement.device);
  const std::size_t shared_bytes = driver::info(placement.device).shared_bytes - kTemperRows;
  // What one launch has in common: its kernel, the number of sweeps, given starts.
  std::map<std::tuple<unsigned, unsigned, std::uint32_t, bool>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const RowShape shape = row_shape(*jobs[i].qubo, shared_bytes);
    groups[{shape.bits, shape.blocks, jobs[i].options.num_sweeps, jobs[i].options.initial_states != nullptr}].push_back(
        i);
  }
  std::size_t done = 0;
  for (const auto& [key, members] : groups) {
    const RowShape shape{std::get<0>(key), std::get<1>(key)};
    std::vector<Walk> walks;
    walks.reserve(members.size());
    for (std::size_t i : members) walks.emplace_back(jobs[i], found[i]);
    in_launches(
        walks, control, [&](const Walk& walk, std::size_t reads) { return walk.bytes(shape, reads); },
        [&](std::span<Walk* const> chosen, std::span<const std::size_t> wanted, bool stopped) {
          run(chosen, wanted, shape, placement, threads, stopped, control);
          done += static_cast<std::size_t>(
              std::count_if(chosen.begin(), chosen.end(), [](const Walk* walk) { return !walk->hand.open(); }));
          control.report(static_cast<double>(done) / static_cast<double>(jobs.size()));
        });
  }
  for (Tempered& tempered : found) tempered.reads.search_seconds = control.seconds() - begin_seconds;
  return found;
}

}  // namespace isinglass::cuda
