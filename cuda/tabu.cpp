#include "tabu.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "generations.hpp"
#include "isinglass/parallel.hpp"
#include "small_models.hpp"
#include "tabu_kernels.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::uint64_t kFirstMoves = 1 << 12;  // of a read, in the first launch: some milliseconds for all

/// The reads of all jobs, one after another.
class TabuBatch {
 public:
  TabuBatch(std::span<const TabuJob> jobs, const Placement& placement)
      : jobs_(jobs),
        first_moves_(placement.slice > 0 ? placement.slice : kFirstMoves),
        batch_(placement.device),
        models_(batch_, models_of(jobs)) {
    bool given = false;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      first_read_.push_back(reads_);
      first_word_.push_back(words_);
      reads_ += jobs[j].options.num_reads;
      words_ += jobs[j].options.num_reads * models_.shape(j).slots;
      given |= jobs[j].options.initial_states != nullptr;
    }
    for (const auto& [shape, members] : models_.groups()) {
      first_task_.push_back(tasks_.size());
      for (std::size_t j : members) add_tasks(j, shape);
    }
    first_task_.push_back(tasks_.size());
    task_array_ = batch_.input<TabuTask>(tasks_.size());
    rules_ = batch_.input<TabuRules>(jobs.size());
    seeds_ = batch_.input<std::uint64_t>(jobs.size());
    starts_ = batch_.input<std::uint64_t>(reads_);
    given_ = batch_.input<std::uint32_t>(given ? words_ : 0);
    progress_ = batch_.output<TabuProgress>(reads_);
    ended_ = batch_.output<std::uint32_t>(reads_);
    best_ = batch_.output<std::uint32_t>(words_);
    here_ = batch_.scratch<std::uint32_t>(words_);
    holds_ = batch_.scratch<std::uint32_t>(32 * words_);
    batch_.allocate();
    models_.fill(threads());
    std::copy(tasks_.begin(), tasks_.end(), batch_.host(task_array_).begin());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const TabuOptions& options = jobs[j].options;
      batch_.host(seeds_)[j] = options.seed;
      batch_.host(rules_)[j] = {options.patience, options.max_moves,
                                integer_target(*jobs[j].qubo, options.target_energy), options.tenure.low,
                                options.tenure.spread};
      if (options.initial_states != nullptr) pack_states(j);
    }
  }

  int threads() const { return jobs_.empty() ? 1 : jobs_.front().options.threads; }
  std::size_t reads() const { return reads_; }
  std::size_t first_read(std::size_t job) const { return first_read_[job]; }

  /// Searches from the start states of a round until every read has ended or the control stops.
  void search(std::uint64_t round, Control& control) {
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      const auto starts = batch_.host(starts_).subspan(first_read_[j], jobs_[j].options.num_reads);
      std::iota(starts.begin(), starts.end(), round << 32);  // later rounds begin where no read of the first one does
    }
    batch_.upload();
    const bool given = round == 0 && given_.count > 0;
    bool resume = false;
    until_done(first_moves_, control, [&](std::uint64_t moves) {
      std::size_t group = 0;
      for (const auto& [shape, members] : models_.groups()) {
        const std::size_t first = first_task_[group], count = first_task_[group + 1] - first;
        batch_.launch(*tabu_kernels[index_of(shape)],
                      {static_cast<unsigned>(count), 32 * kTabuWarps, models_.shared_bytes(members)},
                      TabuArgs{batch_.device(task_array_) + first, models_.device(), batch_.device(rules_),
                               batch_.device(seeds_), batch_.device(starts_), given ? batch_.device(given_) : nullptr,
                               batch_.device(progress_), batch_.device(ended_), batch_.device(here_),
                               batch_.device(best_), batch_.device(holds_), moves, resume});
        ++group;
      }
      batch_.download();
      batch_.wait();
      resume = true;
      const auto ended = batch_.host(ended_);
      const auto done = static_cast<std::size_t>(std::count(ended.begin(), ended.end(), 1U));
      control.report(static_cast<double>(done) / static_cast<double>(std::max<std::size_t>(1, reads_)));
      return done == reads_;
    });
  }

  const TabuProgress& progress(std::size_t read) const { return batch_.host(progress_)[read]; }
  void best(std::size_t job, std::size_t read, std::uint8_t* state) const {
    const std::size_t slots = models_.shape(job).slots;
    unpack(batch_.host(best_).data() + first_word_[job] + read * slots, jobs_[job].qubo->size(), state);
  }

 private:
  static std::vector<const Qubo*> models_of(std::span<const TabuJob> jobs) {
    std::vector<const Qubo*> models;
    for (const TabuJob& job : jobs) models.push_back(job.qubo);
    return models;
  }

  void add_tasks(std::size_t j, const SmallShape& shape) {
    const std::size_t all = jobs_[j].options.num_reads;
    for (std::size_t first = 0; first < all; first += kTabuWarps) {
      tasks_.push_back({static_cast<std::uint32_t>(j),
                        static_cast<std::uint16_t>(std::min<std::size_t>(kTabuWarps, all - first)),
                        static_cast<std::uint16_t>(jobs_[j].options.initial_states != nullptr), first_read_[j] + first,
                        first_word_[j] + first * shape.slots});
    }
  }

  void pack_states(std::size_t j) {
    const std::size_t n = jobs_[j].qubo->size(), slots = models_.shape(j).slots;
    auto words = batch_.host(given_).subspan(first_word_[j], jobs_[j].options.num_reads * slots);
    std::fill(words.begin(), words.end(), 0);
    for (std::size_t r = 0; r < jobs_[j].options.num_reads; ++r) {
      pack(jobs_[j].options.initial_states + r * n, n, words.data() + r * slots);
    }
  }

  std::span<const TabuJob> jobs_;
  std::uint64_t first_moves_;
  Batch batch_;
  SmallModels models_;
  std::size_t reads_ = 0, words_ = 0;
  std::vector<std::size_t> first_read_, first_word_, first_task_;
  std::vector<TabuTask> tasks_;
  Array<TabuTask> task_array_;
  Array<TabuRules> rules_;
  Array<std::uint64_t> seeds_, starts_;
  Array<std::uint32_t> given_, ended_, here_, best_, holds_;
  Array<TabuProgress> progress_;
};

}  // namespace

std::vector<Reads> tabu(std::span<const TabuJob> jobs, const Placement& placement, Control& control) {
  const double begin_seconds = control.seconds();
  TabuBatch batch(jobs, placement);
  std::vector<Reads> found(jobs.size());
  std::vector<std::int64_t> best(batch.reads(), std::numeric_limits<std::int64_t>::max());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    found[j].count = jobs[j].options.num_reads;
    found[j].states.resize(found[j].count * jobs[j].qubo->size());
    found[j].energies.resize(found[j].count);
    found[j].flips.assign(found[j].count, 0);
  }
  const bool again =
      std::any_of(jobs.begin(), jobs.end(), [](const TabuJob& job) { return job.options.until_stopped; });
  Control free(std::numeric_limits<double>::infinity());
  for (std::uint64_t round = 0; round == 0 || (again && control.reason() == StopReason::none); ++round) {
    batch.search(round, control);
    bool reached = false;
    parallel_for(jobs.size(), batch.threads(), free, [&](std::size_t j) {
      const QuboView& view = jobs[j].qubo->view();
      Reads& reads = found[j];
      for (std::size_t r = 0; r < reads.count; ++r) {
        const std::size_t read = batch.first_read(j) + r;
        reads.flips[r] += batch.progress(read).moves;
        if (batch.progress(read).best_energy >= best[read]) continue;
        best[read] = batch.progress(read).best_energy;
        batch.best(j, r, reads.states.data() + r * view.n);
        energies(view, reads.states.data() + r * view.n, 1, reads.energies.data() + r);
      }
    });
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const auto& target = jobs[j].options.target_energy;
      reached |= target && *std::min_element(found[j].energies.begin(), found[j].energies.end()) <= *target;
    }
    if (reached) break;
  }
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const TabuOptions& options = jobs[j].options;
    const std::vector<double> lowest =
        count_generations(options.target_energy, control.reason(), jobs[j].qubo->size(), found[j]);
    if (options.trace) found[j].trace = lowest;
    found[j].search_seconds = control.seconds() - begin_seconds;
  }
  return found;
}

}  // namespace isinglass::cuda
