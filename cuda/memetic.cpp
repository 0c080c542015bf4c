#include "memetic.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "isinglass/parallel.hpp"
#include "isinglass/pools.hpp"
#include "isinglass/schedule.hpp"
#include "memetic_kernels.hpp"
#include "small_models.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::uint32_t kFirstSweeps = 512;     // of a read, in the first launch
constexpr std::uint64_t kFirstMoves = 1 << 12;  // of a pool
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// One job with the pools that it has had.
struct Search {
  explicit Search(const MemeticJob& job)
      : qubo(*job.qubo), options(job.options), plan(qubo, options), harvest(qubo, options) {}

  bool done() const { return harvest.done() || next >= harvest.most(); }
  /// Pools of the next wave: those of one that ends by agreement are wanted two at least.
  std::size_t ahead() const {
    constexpr std::size_t kByAgreement = 2, kMost = 8;
    return std::min(harvest.by_agreement() && !harvest.by_clock() ? kByAgreement : kMost, harvest.most() - next);
  }

  const Qubo& qubo;
  const MemeticOptions& options;
  PoolPlan plan;
  Harvest harvest;
  Window window;  // of the pools that are probed
  std::size_t next = 0;
};

/// The next pools of some searches, on the device.
class Wave {
 public:
  Wave(const std::vector<Search*>& searches, const Placement& placement)
      : searches_(searches), batch_(placement.device), slice_(placement.slice), models_(batch_, qubos_of(searches)) {
    for (const auto& [shape, members] : models_.groups()) {
      first_fill_.push_back(fills_.size());
      first_breed_.push_back(breeds_.size());
      for (std::size_t m : members) add_pools(m, shape);
    }
    first_fill_.push_back(fills_.size());
    first_breed_.push_back(breeds_.size());
    pool_array_ = batch_.input<PoolTask>(pools_.size());
    fill_array_ = batch_.input<FillTask>(fills_.size());
    breed_array_ = batch_.input<BreedTask>(breeds_.size());
    here_ = batch_.input<std::uint32_t>(read_words_);
    bred_ = batch_.output<BredPool>(pools_.size());
    energies_ = batch_.output<std::int64_t>(members_);
    words_ = batch_.output<std::uint32_t>(member_words_);
    reads_ = batch_.scratch<FillRead>(reads_count_);
    best_ = batch_.scratch<std::uint32_t>(read_words_);
    child_here_ = batch_.scratch<std::uint32_t>(holds_count_ / 32);
    child_best_ = batch_.scratch<std::uint32_t>(holds_count_ / 32);
    holds_ = batch_.scratch<std::uint32_t>(holds_count_);
    batch_.allocate();
    models_.fill(searches.front()->options.threads);
    std::copy(pools_.begin(), pools_.end(), batch_.host(pool_array_).begin());
    std::copy(fills_.begin(), fills_.end(), batch_.host(fill_array_).begin());
    std::copy(breeds_.begin(), breeds_.end(), batch_.host(breed_array_).begin());
    for (const PoolTask& pool : pools_) pack_given(pool);
  }

  void run(Control& control) {
    batch_.upload();
    std::uint32_t most_sweeps = 1;
    for (const PoolTask& pool : pools_) most_sweeps = std::max(most_sweeps, pool.sweeps);
    const std::uint64_t swept =
        in_slices(batch_, most_sweeps, slice_ > 0 ? slice_ : kFirstSweeps, control,
                  [&](std::uint64_t first, std::uint64_t count) {
                    fill(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count), false);
                  });
    if (swept < most_sweeps) fill(static_cast<std::uint32_t>(swept), 0, true);
    // A wave that was stopped has its members all the same: the reads, as they were cut short.
    const bool stopped = swept < most_sweeps;
    bool begins = true;
    until_done(slice_ > 0 ? slice_ : kFirstMoves, control, [&](std::uint64_t moves) {
      breed(stopped ? 0 : moves, std::exchange(begins, false));
      batch_.download();
      batch_.wait();
      return std::ranges::all_of(batch_.host(bred_), [](const BredPool& pool) { return pool.ended != 0; });
    });
  }

  /// Pools by search, in order.
  std::vector<std::vector<Pool>> pools() const {
    std::vector<std::vector<Pool>> all(searches_.size());
    for (std::size_t t = 0; t < pools_.size(); ++t) {
      const PoolTask& task = pools_[t];
      const BredPool& bred = batch_.host(bred_)[t];
      const std::size_t slots = models_.shape(task.model).slots;
      const std::size_t words = words_of(searches_[task.model]->qubo.size());
      Pool pool;
      pool.size = task.size;
      pool.children = bred.children;
      pool.moves = bred.moves;
      pool.target_reached = bred.target_reached != 0;
      pool.whole = bred.ended != 0;
      for (std::size_t m = 0; m < bred.members; ++m) {
        const std::uint32_t* const from = batch_.host(words_).data() + task.first_member_word + m * slots;
        pool.members.push_back({batch_.host(energies_)[task.first_member + m], Words(from, from + words), 0, false});
      }
      all[task.model].push_back(std::move(pool));
    }
    return all;
  }

 private:
  static std::vector<const Qubo*> qubos_of(const std::vector<Search*>& searches) {
    std::vector<const Qubo*> qubos;
    for (const Search* search : searches) qubos.push_back(&search->qubo);
    return qubos;
  }

  void add_pools(std::size_t m, const SmallShape& shape) {
    const Search& search = *searches_[m];
    const MemeticOptions& options = search.options;
    const std::size_t count = search.ahead();
    breeds_.push_back({static_cast<std::uint32_t>(pools_.size()), static_cast<std::uint32_t>(count)});
    for (std::size_t p = search.next; p < search.next + count; ++p) {
      const std::size_t size = search.plan.size(p), given = p == 0 ? options.num_initial_states : 0;
      const std::size_t reads = given + PoolPlan::kReadsPerMember * size;
      const Window window = search.plan.probed(p) ? search.window : wide_window(search.qubo);
      const std::uint32_t sweeps = search.plan.sweeps(p);
      pools_.push_back(
          {options.seed,
           p,
           window.hot,
           geometric_ratio(window.hot, window.cold, sweeps),
           {search.plan.patience(), kNoLimit, search.plan.target(), options.tenure.low, options.tenure.spread},
           search.plan.most_children(),
           search.plan.most_failures(size),
           reads_count_,
           read_words_,
           members_,
           member_words_,
           holds_count_,
           static_cast<std::uint32_t>(m),
           sweeps,
           static_cast<std::uint32_t>(size),
           static_cast<std::uint32_t>(given),
           static_cast<std::uint32_t>(reads)});
      const auto index = static_cast<std::uint32_t>(pools_.size() - 1);
      for (std::size_t first = 0; first < reads; first += kFillWarps) {
        fills_.push_back({index, static_cast<std::uint32_t>(first),
                          static_cast<std::uint32_t>(std::min<std::size_t>(kFillWarps, reads - first))});
      }
      reads_count_ += reads;
      read_words_ += reads * shape.slots;
      members_ += size;
      member_words_ += size * shape.slots;
      holds_count_ += 32 * shape.slots;
    }
  }

  void pack_given(const PoolTask& pool) {
    const Search& search = *searches_[pool.model];
    const std::size_t n = search.qubo.size(), slots = models_.shape(pool.model).slots;
    const auto words = batch_.host(here_).subspan(pool.first_read_word, pool.given * slots);
    std::ranges::fill(words, 0U);
    for (std::size_t s = 0; s < pool.given; ++s) {
      pack(search.options.initial_states + s * n, n, words.data() + s * slots);
    }
  }

  void fill(std::uint32_t first_sweep, std::uint32_t sweeps, bool finish) {
    for_groups(first_fill_, [&](const SmallShape& shape, std::size_t first, unsigned blocks, std::size_t rows) {
      batch_.launch(
          *fill_kernels[index_of(shape)], {blocks, 32 * kFillWarps, rows},
          FillArgs{batch_.device(fill_array_) + first, batch_.device(pool_array_), models_.device(),
                   batch_.device(reads_), batch_.device(here_), batch_.device(best_), first_sweep, sweeps, finish});
    });
  }

  void breed(std::uint64_t moves, bool begins) {
    for_groups(first_breed_, [&](const SmallShape& shape, std::size_t first, unsigned blocks, std::size_t rows) {
      batch_.launch(*breed_kernels[index_of(shape)], {blocks, 32 * kBreedWarps, rows + kBreedWarps * kBinBytes},
                    BreedArgs{batch_.device(breed_array_) + first, batch_.device(pool_array_), models_.device(),
                              batch_.device(reads_), batch_.device(here_), batch_.device(bred_),
                              batch_.device(energies_), batch_.device(words_), batch_.device(child_here_),
                              batch_.device(child_best_), batch_.device(holds_), moves, rows, begins});
    });
  }

  /// launch(shape, its first task, its tasks, bytes of its rows in shared memory)
  template <class Launch>
  void for_groups(const std::vector<std::size_t>& first_tasks, Launch launch) {
    std::size_t group = 0;
    for (const auto& [shape, members] : models_.groups()) {
      launch(shape, first_tasks[group], static_cast<unsigned>(first_tasks[group + 1] - first_tasks[group]),
             models_.shared_bytes(members));
      ++group;
    }
  }

  const std::vector<Search*>& searches_;
  Batch batch_;
  std::uint64_t slice_;
  SmallModels models_;
  std::vector<PoolTask> pools_;
  std::vector<FillTask> fills_;
  std::vector<BreedTask> breeds_;
  std::vector<std::size_t> first_fill_, first_breed_;  // by shape
  std::size_t reads_count_ = 0, read_words_ = 0, members_ = 0, member_words_ = 0, holds_count_ = 0;
  Array<PoolTask> pool_array_;
  Array<FillTask> fill_array_;
  Array<BreedTask> breed_array_;
  Array<FillRead> reads_;
  Array<BredPool> bred_;
  Array<std::int64_t> energies_;
  Array<std::uint32_t> here_, best_, words_, child_here_, child_best_, holds_;
};

}  // namespace

std::vector<MemeticResult> memetic(std::span<const MemeticJob> jobs, const Placement& placement, Control& control) {
  const double begin_seconds = control.seconds();
  std::vector<std::unique_ptr<Search>> searches;
  for (const MemeticJob& job : jobs) searches.push_back(std::make_unique<Search>(job));
  const int threads = jobs.empty() ? 1 : jobs.front().options.threads;
  Control free(std::numeric_limits<double>::infinity());
  std::vector<Search*> active;
  for (bool first = true;; first = false) {
    active.clear();
    for (const auto& search : searches) {
      if (!search->done()) active.push_back(search.get());
    }
    if (active.empty() || (!first && control.stop())) break;
    if (first) {
      parallel_for(active.size(), threads, free, [&](std::size_t a) {
        Search& search = *active[a];
        if (search.plan.probed(search.ahead() - 1)) search.window = probe_window(search.qubo);
      });
    }
    Wave wave(active, placement);
    wave.run(control);
    std::vector<std::vector<Pool>> pools = wave.pools();
    for (std::size_t a = 0; a < active.size(); ++a) {
      for (Pool& pool : pools[a]) {
        if (!active[a]->harvest.done()) active[a]->harvest.take(pool);
      }
      active[a]->next += pools[a].size();
    }
    const auto done = std::ranges::count_if(searches, [](const auto& search) { return search->done(); });
    control.report(static_cast<double>(done) / static_cast<double>(searches.size()));
  }
  std::vector<MemeticResult> found;
  for (const auto& search : searches) {
    found.push_back(search->harvest.finish(control.reason()));
    found.back().reads.search_seconds = control.seconds() - begin_seconds;
  }
  return found;
}

}  // namespace isinglass::cuda
