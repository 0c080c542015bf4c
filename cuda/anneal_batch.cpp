#include "anneal_batch.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "anneal_kernels.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::int64_t kNoEnergy = std::numeric_limits<std::int64_t>::max();

struct Walk : SmallWalk<AnnealJob, Reads> {
  Walk(const AnnealJob& job_in, Reads& reads)
      : SmallWalk(job_in, reads, reads), lowest(job.options.trace ? sweeps() : 0, kNoEnergy) {}

  std::size_t sweeps() const { return job.options.t2.size(); }
  std::size_t bytes(RowShape shape, std::size_t count) const {
    const std::size_t n = job.qubo->size();
    return n * (shape.row_bytes() + sizeof(std::int32_t)) + sweeps() * sizeof(float) +
           lowest.size() * sizeof(std::int64_t) + count * (sizeof(ReadRecord) + sizeof(std::uint32_t) * kMostBlocks);
  }

  std::vector<std::int64_t> lowest;  // of any read, by sweep
};

unsigned warps_of_block(const Placement& placement, RowShape shape, std::size_t n, std::size_t reads) {
  constexpr std::size_t kLargeRows = 24 << 10;  // of shared memory: few blocks share a multiprocessor
  const unsigned most = kAnnealThreads / 32;
  if (placement.warps > 0) return std::min(placement.warps, most);
  const unsigned wished = shape.shared_bytes(n) > kLargeRows ? most : most / 2;
  return static_cast<unsigned>(std::min<std::size_t>(wished, std::max<std::size_t>(1, reads)));
}

class Portion {
 public:
  Portion(std::vector<Walk*> walks, std::vector<std::size_t> wanted, RowShape shape, const Placement& placement,
          int threads, bool stopped, Control& control)
      : walks_(std::move(walks)), wanted_(std::move(wanted)), threads_(threads), batch_(placement.device) {
    const AnnealOptions& shared = walks_[0]->job.options;
    const bool starts_given = shared.initial_states != nullptr;
    std::size_t rows = 0, linear = 0, t2 = 0, trace = 0, reads = 0, attempts = 0, largest = 0, most_reads = 0;
    for (std::size_t p = 0; p < walks_.size(); ++p) {
      const Walk& walk = *walks_[p];
      const std::size_t n = walk.job.qubo->size();
      problems_.push_back({.seed = walk.job.options.seed,
                           .first_read = walk.found.count,
                           .rows = rows,
                           .linear = linear,
                           .t2 = t2,
                           .trace = trace,
                           .start = reads * kMostBlocks,
                           .read = reads,
                           .n = static_cast<std::uint32_t>(n),
                           .reads = static_cast<std::uint32_t>(wanted_[p])});
      rows += n * shape.row_bytes() / sizeof(std::uint32_t);
      linear += n;
      t2 += walk.sweeps();
      trace += walk.lowest.size();
      reads += wanted_[p];
      attempts += wanted_[p] * n;
      largest = std::max(largest, n);
      most_reads = std::max(most_reads, wanted_[p]);
    }
    const unsigned warps = warps_of_block(placement, shape, largest, most_reads);
    std::vector<AnnealBlock> blocks;
    for (std::size_t p = 0; p < walks_.size(); ++p) {
      for (std::size_t first = 0; first < wanted_[p]; first += warps) {
        blocks.push_back({static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(first)});
      }
    }

    const auto problem_array = batch_.input<AnnealProblem>(problems_.size());
    const auto block_array = batch_.input<AnnealBlock>(blocks.size());
    const auto row_array = batch_.input<std::uint32_t>(rows);
    const auto linear_array = batch_.input<std::int32_t>(linear);
    const auto t2_array = batch_.input<float>(t2);
    const auto start_array = batch_.input<std::uint32_t>(starts_given ? reads * kMostBlocks : 0);
    trace_ = batch_.in_out<std::int64_t>(trace);
    records_ = batch_.output<ReadRecord>(reads);
    batch_.allocate();
    std::ranges::copy(problems_, batch_.host(problem_array).begin());
    std::ranges::copy(blocks, batch_.host(block_array).begin());
    on_threads(walks_.size(), threads, [&](std::size_t p) {
      const Walk& walk = *walks_[p];
      const AnnealProblem& problem = problems_[p];
      pack_rows(*walk.job.qubo, shape, batch_.host(row_array).data() + problem.rows);
      std::ranges::copy(walk.job.qubo->linear(), batch_.host(linear_array).data() + problem.linear);
      std::ranges::copy(walk.job.options.t2, batch_.host(t2_array).data() + problem.t2);
      std::ranges::copy(walk.lowest, batch_.host(trace_).data() + problem.trace);
      for (std::size_t r = 0; starts_given && r < problem.reads; ++r) {
        pack_state(walk.job.options.initial_states + (problem.first_read + r) * problem.n, problem.n,
                   batch_.host(start_array).data() + problem.start + r * kMostBlocks);
      }
    });

    batch_.upload();
    const std::size_t sweeps = walks_[0]->sweeps();
    AnnealArgs args{.problems = batch_.device(problem_array),
                    .blocks = batch_.device(block_array),
                    .rows = batch_.device(row_array),
                    .linear = batch_.device(linear_array),
                    .t2 = batch_.device(t2_array),
                    .starts = starts_given ? batch_.device(start_array) : nullptr,
                    .trace = shared.trace ? batch_.device(trace_) : nullptr,
                    .reads = batch_.device(records_),
                    .first_sweep = 0,
                    .num_sweeps = 0,
                    .begin = true,
                    .end = false,
                    .quench = shared.quench && sweeps > 0};
    const Shape grid{static_cast<unsigned>(blocks.size()), warps * 32, shape.shared_bytes(largest)};
    reason_ = in_sweeps(batch_, sweeps, stopped, first_slice(placement, attempts, largest), control,
                        [&](std::uint64_t first, std::uint64_t count, bool end) {
                          args.first_sweep = static_cast<std::uint32_t>(first);
                          args.num_sweeps = static_cast<std::uint32_t>(count);
                          args.begin = first == 0;
                          args.end = end;
                          batch_.launch(anneal_kernel(shape), grid, args);
                        });
    batch_.download();
  }

  void finish() {
    batch_.wait();
    on_threads(walks_.size(), threads_, [&](std::size_t p) {
      Walk& walk = *walks_[p];
      const ReadRecord* const records = batch_.host(records_).data() + problems_[p].read;
      std::copy_n(batch_.host(trace_).data() + problems_[p].trace, walk.lowest.size(), walk.lowest.begin());
      walk.hand.take(
          wanted_[p], reason_, [&](std::size_t r) { return records[r].state; },
          [&](std::size_t r) { return records[r].flips; });
    });
  }

 private:
  std::vector<Walk*> walks_;
  std::vector<std::size_t> wanted_;
  int threads_;
  std::vector<AnnealProblem> problems_;
  Batch batch_;
  Array<std::int64_t> trace_;
  Array<ReadRecord> records_;
  StopReason reason_ = StopReason::none;
};

}  // namespace

std::vector<Reads> anneal(std::span<const AnnealJob> jobs, const Placement& placement, int threads, Control& control) {
  std::vector<Reads> found(jobs.size());
  const double begin_seconds = control.seconds();
  check_device(placement.device);
  const auto groups = grouped(jobs, driver::info(placement.device).shared_bytes, [](const AnnealJob& job) {
    const AnnealOptions& o = job.options;
    return std::tuple(o.t2.size(), o.quench, o.trace, o.initial_states != nullptr);
  });
  for (const auto& [key, members] : groups) {
    const RowShape shape = key.first;
    std::vector<Walk> walks;
    walks.reserve(members.size());
    for (std::size_t i : members) walks.emplace_back(jobs[i], found[i]);
    in_portions<Portion>(
        walks, placement, control, [&](const Walk& walk, std::size_t reads) { return walk.bytes(shape, reads); },
        [&](const std::vector<Walk*>& chosen, std::vector<std::size_t> wanted, bool stopped) {
          return std::make_unique<Portion>(chosen, std::move(wanted), shape, placement, threads, stopped, control);
        });
    for (Walk& walk : walks) {
      std::int64_t so_far = kNoEnergy;
      for (std::int64_t energy : walk.lowest) {
        so_far = std::min(so_far, energy);
        if (so_far == kNoEnergy) break;  // stopped before this sweep
        walk.found.trace.push_back(static_cast<double>(so_far) / walk.job.qubo->scale() + walk.job.qubo->view().offset);
      }
    }
  }
  for (Reads& reads : found) reads.search_seconds = control.seconds() - begin_seconds;
  return found;
}

}  // namespace isinglass::cuda
