#include "anneal_batch.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "anneal_kernels.hpp"
#include "runtime.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::int64_t kNoEnergy = std::numeric_limits<std::int64_t>::max();

/// A job under way.
struct Walk {
  Walk(const AnnealJob& job_in, Reads& reads_in)
      : job(job_in), reads(reads_in), hand(*job.qubo, job.options, reads), lowest(trace() ? sweeps() : 0, kNoEnergy) {}

  std::size_t sweeps() const { return job.options.t2.size(); }
  bool trace() const { return job.options.trace; }
  std::size_t bytes(RowShape shape, std::size_t count) const {
    const std::size_t n = job.qubo->size();
    return n * (shape.row_bytes() + sizeof(std::int32_t)) +
           sweeps() * (sizeof(float) + trace() * sizeof(std::int64_t)) +
           count * (sizeof(ReadRecord) + sizeof(std::uint32_t) * kMostBlocks);
  }

  const AnnealJob& job;
  Reads& reads;
  ReadsInHand hand;
  std::vector<std::int64_t> lowest;  // of any read, by sweep
};

unsigned warps_of_block(const Placement& placement, RowShape shape, std::size_t n, std::size_t reads) {
  constexpr std::size_t kLargeRows = 24 << 10;  // of shared memory: few blocks share a multiprocessor
  const unsigned most = kAnnealThreads / 32;
  if (placement.warps > 0) return std::min(placement.warps, most);
  const unsigned wished = shape.shared_bytes(n) > kLargeRows ? most : most / 2;
  return static_cast<unsigned>(std::min<std::size_t>(wished, std::max<std::size_t>(1, reads)));
}

/// One launch, sliced, of reads of walks that share a kernel and the shape of their options.
void run(std::span<Walk* const> walks, std::span<const std::size_t> wanted, RowShape shape, const Placement& placement,
         int threads, bool stopped, Control& control) {
  const AnnealOptions& shared = walks[0]->job.options;
  const bool starts_given = shared.initial_states != nullptr;
  std::vector<AnnealProblem> problems(walks.size());
  std::size_t rows = 0, linear = 0, t2 = 0, trace = 0, reads = 0, attempts = 0, largest = 0, most_reads = 0;
  for (std::size_t p = 0; p < walks.size(); ++p) {
    const Walk& walk = *walks[p];
    const std::size_t n = walk.job.qubo->size();
    problems[p] = {.seed = walk.job.options.seed,
                   .first_read = walk.reads.count,
                   .rows = rows,
                   .linear = linear,
                   .t2 = t2,
                   .trace = trace,
                   .start = reads * kMostBlocks,
                   .read = reads,
                   .n = static_cast<std::uint32_t>(n),
                   .reads = static_cast<std::uint32_t>(wanted[p])};
    rows += n * shape.row_bytes() / sizeof(std::uint32_t);
    linear += n;
    t2 += walk.sweeps();
    trace += walk.lowest.size();
    reads += wanted[p];
    attempts += wanted[p] * n;
    largest = std::max(largest, n);
    most_reads = std::max(most_reads, wanted[p]);
  }
  const unsigned warps = warps_of_block(placement, shape, largest, most_reads);
  std::vector<AnnealBlock> blocks;
  for (std::size_t p = 0; p < walks.size(); ++p) {
    for (std::size_t first = 0; first < wanted[p]; first += warps) {
      blocks.push_back({static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(first)});
    }
  }

  Batch batch(placement.device);
  const auto problem_array = batch.input<AnnealProblem>(problems.size());
  const auto block_array = batch.input<AnnealBlock>(blocks.size());
  const auto row_array = batch.input<std::uint32_t>(rows);
  const auto linear_array = batch.input<std::int32_t>(linear);
  const auto t2_array = batch.input<float>(t2);
  const auto start_array = batch.input<std::uint32_t>(starts_given ? reads * kMostBlocks : 0);
  const auto trace_array = batch.in_out<std::int64_t>(trace);
  const auto record_array = batch.output<ReadRecord>(reads);
  batch.allocate();
  std::copy(problems.begin(), problems.end(), batch.host(problem_array).begin());
  std::copy(blocks.begin(), blocks.end(), batch.host(block_array).begin());
  on_threads(walks.size(), threads, [&](std::size_t p) {
    const Walk& walk = *walks[p];
    const AnnealProblem& problem = problems[p];
    pack_rows(*walk.job.qubo, shape, batch.host(row_array).data() + problem.rows);
    std::ranges::copy(walk.job.qubo->linear(), batch.host(linear_array).data() + problem.linear);
    std::ranges::copy(walk.job.options.t2, batch.host(t2_array).data() + problem.t2);
    std::ranges::copy(walk.lowest, batch.host(trace_array).data() + problem.trace);
    for (std::size_t r = 0; starts_given && r < problem.reads; ++r) {
      pack_state(walk.job.options.initial_states + (problem.first_read + r) * problem.n, problem.n,
                 batch.host(start_array).data() + problem.start + r * kMostBlocks);
    }
  });

  batch.upload();
  const auto sweeps = static_cast<std::uint32_t>(walks[0]->sweeps());
  AnnealArgs args{.problems = batch.device(problem_array),
                  .blocks = batch.device(block_array),
                  .rows = batch.device(row_array),
                  .linear = batch.device(linear_array),
                  .t2 = batch.device(t2_array),
                  .starts = starts_given ? batch.device(start_array) : nullptr,
                  .trace = shared.trace ? batch.device(trace_array) : nullptr,
                  .reads = batch.device(record_array),
                  .first_sweep = 0,
                  .num_sweeps = 0,
                  .begin = true,
                  .end = false,
                  .quench = shared.quench && sweeps > 0};
  const Shape grid{static_cast<unsigned>(blocks.size()), warps * 32, shape.shared_bytes(largest)};
  const auto launch = [&](std::uint64_t first, std::uint64_t count, bool end) {
    args.first_sweep = static_cast<std::uint32_t>(first);
    args.num_sweeps = static_cast<std::uint32_t>(count);
    args.begin = first == 0;
    args.end = end;
    batch.launch(anneal_kernel(shape), grid, args);
  };
  std::uint64_t swept = 0;
  if (!stopped) {
    swept = in_slices(batch, sweeps, first_slice(placement, attempts, largest), control,
                      [&](std::uint64_t first, std::uint64_t count) { launch(first, count, first + count == sweeps); });
  }
  if (swept < sweeps || sweeps == 0) launch(swept, 0, true);
  batch.download();
  batch.wait();

  const StopReason reason = swept < sweeps ? control.reason() : StopReason::none;
  on_threads(walks.size(), threads, [&](std::size_t p) {
    Walk& walk = *walks[p];
    const ReadRecord* const records = batch.host(record_array).data() + problems[p].read;
    std::copy_n(batch.host(trace_array).data() + problems[p].trace, walk.lowest.size(), walk.lowest.begin());
    walk.hand.take(
        wanted[p], reason, [&](std::size_t r) { return records[r].state; },
        [&](std::size_t r) { return records[r].flips; });
  });
}

}  // namespace

std::vector<Reads> anneal(std::span<const AnnealJob> jobs, const Placement& placement, int threads, Control& control) {
  std::vector<Reads> found(jobs.size());
  const double begin_seconds = control.seconds();
  check_device(placement.device);
  const std::size_t shared_bytes = driver::info(placement.device).shared_bytes;
  // What one launch has in common: its kernel and the shape of its options.
  std::map<std::tuple<unsigned, unsigned, std::size_t, bool, bool, bool>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const RowShape shape = row_shape(*jobs[i].qubo, shared_bytes);
    const AnnealOptions& o = jobs[i].options;
    groups[{shape.bits, shape.blocks, o.t2.size(), o.quench, o.trace, o.initial_states != nullptr}].push_back(i);
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
    for (Walk& walk : walks) {
      std::int64_t so_far = kNoEnergy;
      for (std::int64_t energy : walk.lowest) {
        so_far = std::min(so_far, energy);
        if (so_far == kNoEnergy) break;  // stopped before this sweep
        walk.reads.trace.push_back(static_cast<double>(so_far) / walk.job.qubo->scale() + walk.job.qubo->view().offset);
      }
    }
  }
  for (Reads& reads : found) reads.search_seconds = control.seconds() - begin_seconds;
  return found;
}

}  // namespace isinglass::cuda
