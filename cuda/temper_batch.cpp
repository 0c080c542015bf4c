#include "temper_batch.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "temper_kernels.hpp"

namespace isinglass::cuda {
namespace {

struct Walk : SmallWalk<TemperJob, Tempered> {
  Walk(const TemperJob& job_in, Tempered& tempered) : SmallWalk(job_in, tempered, tempered.reads) {}

  std::size_t bytes(RowShape shape, std::size_t reads) const {
    return job.qubo->size() * (shape.row_bytes() + sizeof(std::int32_t)) +
           reads * (sizeof(TemperRead) + sizeof(TemperRecord) + sizeof(TemperEnd));
  }
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

class Portion {
 public:
  Portion(std::vector<Walk*> walks, std::vector<std::size_t> wanted, RowShape shape, const Placement& placement,
          int threads, bool stopped, Control& control)
      : walks_(std::move(walks)), wanted_(std::move(wanted)), threads_(threads), batch_(placement.device) {
    const TemperOptions& shared = walks_[0]->job.options;
    const bool starts_given = shared.initial_states != nullptr;
    std::vector<TemperProblem> problems;
    std::vector<TemperRead> reads;
    std::size_t rows = 0, linear = 0, attempts = 0, largest = 0;
    for (std::size_t p = 0; p < walks_.size(); ++p) {
      const std::size_t n = walks_[p]->job.qubo->size();
      problems.push_back(problem_of(*walks_[p], rows, linear));
      place_.push_back(reads.size());
      for (std::size_t r = 0; r < wanted_[p]; ++r) {
        reads.push_back({static_cast<std::uint32_t>(p), walks_[p]->found.reads.count + r});
      }
      rows += n * shape.row_bytes() / sizeof(std::uint32_t);
      linear += n;
      attempts += wanted_[p] * n * kLadderReplicas;
      largest = std::max(largest, n);
    }

    const auto problem_array = batch_.input<TemperProblem>(problems.size());
    const auto read_array = batch_.input<TemperRead>(reads.size());
    const auto row_array = batch_.input<std::uint32_t>(rows);
    const auto linear_array = batch_.input<std::int32_t>(linear);
    const auto start_array = batch_.input<std::uint32_t>(starts_given ? reads.size() * kMostBlocks : 0);
    ends_ = batch_.output<TemperEnd>(reads.size());
    const auto record_array = batch_.scratch<TemperRecord>(reads.size());
    batch_.allocate();
    std::ranges::copy(problems, batch_.host(problem_array).begin());
    std::ranges::copy(reads, batch_.host(read_array).begin());
    on_threads(walks_.size(), threads, [&](std::size_t p) {
      const Walk& walk = *walks_[p];
      const Qubo& qubo = *walk.job.qubo;
      pack_rows(qubo, shape, batch_.host(row_array).data() + problems[p].rows);
      std::ranges::copy(qubo.linear(), batch_.host(linear_array).data() + problems[p].linear);
      for (std::size_t r = 0; starts_given && r < wanted_[p]; ++r) {
        pack_state(walk.job.options.initial_states + (walk.found.reads.count + r) * qubo.size(), qubo.size(),
                   batch_.host(start_array).data() + (place_[p] + r) * kMostBlocks);
      }
    });

    batch_.upload();
    TemperArgs args{.problems = batch_.device(problem_array),
                    .reads = batch_.device(read_array),
                    .rows = batch_.device(row_array),
                    .linear = batch_.device(linear_array),
                    .starts = starts_given ? batch_.device(start_array) : nullptr,
                    .records = batch_.device(record_array),
                    .ends = batch_.device(ends_),
                    .first_sweep = 0,
                    .num_sweeps = 0,
                    .all_sweeps = shared.num_sweeps,
                    .begin = true,
                    .end = false};
    const Shape grid{static_cast<unsigned>(reads.size()), kTemperThreads, kTemperRows + shape.shared_bytes(largest)};
    reason_ = in_sweeps(batch_, shared.num_sweeps, stopped, first_slice(placement, attempts, largest), control,
                        [&](std::uint64_t first, std::uint64_t count, bool end) {
                          args.first_sweep = static_cast<std::uint32_t>(first);
                          args.num_sweeps = static_cast<std::uint32_t>(count);
                          args.begin = first == 0;
                          args.end = end;
                          batch_.launch(temper_kernel(shape), grid, args);
                        });
    batch_.download();
  }

  void finish() {
    batch_.wait();
    on_threads(walks_.size(), threads_, [&](std::size_t p) {
      Walk& walk = *walks_[p];
      const TemperEnd* const ends = batch_.host(ends_).data() + place_[p];
      if (walk.found.reads.count == 0) describe_ladder(ends[0].ladder, walk.found);
      walk.hand.take(
          wanted_[p], reason_, [&](std::size_t r) { return ends[r].state; },
          [&](std::size_t r) { return ends[r].flips; });
    });
  }

 private:
  std::vector<Walk*> walks_;
  std::vector<std::size_t> wanted_, place_;  // place_: of the first read of a problem
  int threads_;
  Batch batch_;
  Array<TemperEnd> ends_;
  StopReason reason_ = StopReason::none;
};

}  // namespace

std::vector<Tempered> temper(std::span<const TemperJob> jobs, const Placement& placement, int threads,
                             Control& control) {
  std::vector<Tempered> found(jobs.size());
  const double begin_seconds = control.seconds();
  check_device(placement.device);
  const auto groups = grouped(
      jobs, driver::info(placement.device).shared_bytes - kTemperRows,
      [](const TemperJob& job) { return std::pair(job.options.num_sweeps, job.options.initial_states != nullptr); });
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
  }
  for (Tempered& tempered : found) tempered.reads.search_seconds = control.seconds() - begin_seconds;
  return found;
}

}  // namespace isinglass::cuda
