#include "evidence.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "evidence_kernels.hpp"
#include "isinglass/parallel.hpp"
#include "runtime.hpp"
#include "staging.hpp"

namespace isinglass::cuda {
namespace {

// Pair terms in shared memory while a multiprocessor still holds several searches.
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostSharedWithRows = std::size_t{32} << 10;

SwapQuery describe(const EvidenceProblem& problem, std::uint64_t seed, const SwapOptions& options, Stage& stage) {
  const std::size_t n = problem.size(), stride = problem.stride(), terms = problem.view().terms;
  const SwapPlan plan = swap_plan(problem, options);
  SwapQuery q{};
  q.n = static_cast<std::uint32_t>(n);
  q.stride = static_cast<std::uint32_t>(stride);
  q.terms = static_cast<std::uint32_t>(terms);
  q.max_items = static_cast<std::uint32_t>(problem.view().max_items);
  q.add_tenure = plan.add_tenure;
  q.drop_tenure = plan.drop_tenure;
  q.tenure_spread = plan.tenure_spread;
  q.num_reads = static_cast<std::uint32_t>(plan.num_reads);
  q.agreement = static_cast<std::uint32_t>(plan.agreement);
  q.patience = plan.patience;
  q.seed = seed;
  q.budget = problem.view().budget;
  q.linear = stage.copy(std::span(problem.linear(), n));
  q.pairs = stage.copy(std::span(problem.all_pairs(), n * stride));
  q.term_rows = stage.copy(std::span(problem.term_rows(), terms * stride));
  q.term_weights = stage.copy(std::span(problem.term_weights(), terms));
  q.term_start = stage.copy(std::span(problem.term_start(), n + 1));
  q.term_list = stage.copy(std::span(problem.term_list(), static_cast<std::size_t>(problem.term_start()[n])));
  if (problem.costs() != nullptr) q.costs = stage.copy(std::span(problem.costs(), n));
  return q;
}

struct Need {
  std::size_t bytes = 0;                               // of input
  std::size_t shared_bytes = 0, shared_with_rows = 0;  // of the block
  std::uint32_t moves = 0;                             // of one launch
};

Need need_of(const EvidenceProblem& problem, std::size_t index, const SwapBatchOptions& options,
             std::size_t shared_bytes) {
  if (problem.size() > kMostEvidence) {
    throw std::invalid_argument("backend 'cuda' swaps in evidence problems of at most 256 passages, got " +
                                std::to_string(problem.size()) + " (problem " + std::to_string(index) + ")");
  }
  Stage sizes;
  const SwapQuery query = describe(problem, 0, {}, sizes);
  Need need{sizes.at(), SwapArena::of(query, false).bytes, SwapArena::of(query, true).bytes, options.most_moves};
  if (need.shared_bytes > shared_bytes) {
    throw std::invalid_argument("backend 'cuda' swaps in evidence problems that take at most " +
                                std::to_string(shared_bytes) + " bytes of shared memory, got one of " +
                                std::to_string(need.shared_bytes) + " (problem " + std::to_string(index) + ")");
  }
  constexpr std::uint32_t kScans = 1'000'000;  // of 32 exchanges, in one launch
  if (need.moves == 0) need.moves = std::max(1U, kScans / ((query.max_items + 1) * (query.n / 32 + 8)));
  return need;
}

class Portion {
 public:
  Portion(std::span<const EvidenceProblem* const> problems, std::span<const std::uint64_t> seeds,
          std::span<const Need> needs, std::size_t first, const SwapBatchOptions& options)
      : problems_(problems), seeds_(seeds), first_(first), options_(options), batch_(options.device) {
    std::size_t bytes = 0, stride = 0, most_items = 0, with_rows = 0;
    args_.most_moves = needs[0].moves;
    for (std::size_t k = 0; k < problems.size(); ++k) {
      offsets_.push_back(bytes);
      bytes += needs[k].bytes;
      stride = std::max(stride, problems[k]->stride());
      most_items = std::max(most_items, problems[k]->view().max_items);
      shared_bytes_ = std::max(shared_bytes_, needs[k].shared_bytes);
      with_rows = std::max(with_rows, needs[k].shared_with_rows);
      args_.most_moves = std::min(args_.most_moves, needs[k].moves);
    }
    args_.rows_in_shared = with_rows <= std::min(kMostSharedWithRows, batch_.info().shared_bytes);
    if (args_.rows_in_shared) shared_bytes_ = with_rows;
    const std::size_t count = problems.size();
    queries_ = batch_.input<SwapQuery>(count);
    data_ = batch_.input<std::byte>(bytes);
    states_ = batch_.output<SwapState>(count);
    selection_ = batch_.output<std::int32_t>(count * most_items);
    const auto rows = batch_.scratch<std::int64_t>(count * 3 * stride);
    const auto items = batch_.scratch<std::uint16_t>(count * 2 * most_items);
    batch_.allocate();
    args_.queries = batch_.device(queries_);
    args_.states = batch_.device(states_);
    args_.selection = batch_.device(selection_);
    args_.rows = batch_.device(rows);
    args_.items = batch_.device(items);
    args_.stride = static_cast<std::uint32_t>(stride);
    args_.most_items = static_cast<std::uint32_t>(most_items);
  }

  void start(Control& control) {
    const std::span<SwapQuery> queries = batch_.host(queries_);
    std::byte* const host = batch_.host(data_).data();
    const std::byte* const device = batch_.device(data_);
    parallel_for(problems_.size(), options_.threads, control, [&](std::size_t k) {
      Stage stage(host, device, offsets_[k]);
      queries[k] = describe(*problems_[k], seeds_[k], {options_.num_reads, options_.patience, seeds_[k]}, stage);
    });
    if (control.reason() != StopReason::none) return;
    batch_.upload();
    launch(true);
    started_ = true;
  }

  /// Launches until every search has ended, or the control stops.
  void finish(std::span<EvidenceAnswer> answers, Control& control) {
    if (!started_) return;
    for (;;) {
      batch_.wait();
      const std::span<const SwapState> states = batch_.host(states_);
      const bool done = std::all_of(states.begin(), states.end(), [](const SwapState& s) { return s.stage == kDone; });
      if (done || control.stop()) break;
      launch(false);
    }
    for (std::size_t k = 0; k < problems_.size(); ++k) {
      const SwapState& state = batch_.host(states_)[k];
      EvidenceAnswer& answer = answers[first_ + k];
      const auto items = batch_.host(selection_).subspan(k * args_.most_items, state.selected);
      answer.selection.assign(items.begin(), items.end());
      const bool walking = state.stage == kWalking;
      answer.reads = state.read + (walking ? 1 : 0);
      answer.moves = state.moves + (walking ? static_cast<std::uint64_t>(state.move) : 0);
      if (state.stage != kDone) answer.stopped = control.reason();
    }
  }

 private:
  void launch(bool first) {
    args_.first = first;
    batch_.launch(evidence_swap, {static_cast<unsigned>(problems_.size()), 32, shared_bytes_}, args_);
    batch_.download();
  }

  std::span<const EvidenceProblem* const> problems_;
  std::span<const std::uint64_t> seeds_;
  std::size_t first_;
  const SwapBatchOptions& options_;
  Batch batch_;
  std::vector<std::size_t> offsets_;
  std::size_t shared_bytes_ = 0;
  bool started_ = false;
  Array<SwapQuery> queries_;
  Array<std::byte> data_;
  Array<SwapState> states_;
  Array<std::int32_t> selection_;
  SwapArgs args_{};
};

}  // namespace

std::vector<EvidenceAnswer> swap_search(std::span<const EvidenceProblem* const> problems,
                                        std::span<const std::uint64_t> seeds, const SwapBatchOptions& options,
                                        Control& control) {
  check_device(options.device);
  const std::size_t shared_bytes = driver::info(options.device).shared_bytes;
  std::vector<EvidenceAnswer> answers(problems.size());
  // Those with something to search.
  std::vector<const EvidenceProblem*> searched;
  std::vector<std::uint64_t> seeds_of;
  std::vector<std::size_t> place;
  std::vector<Need> needs;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const EvidenceProblem& problem = *problems[i];
    answers[i].patience = swap_plan(problem, {options.num_reads, options.patience, seeds[i]}).patience;
    if (problem.size() == 0 || problem.view().max_items == 0) continue;
    needs.push_back(need_of(problem, i, options, shared_bytes));
    searched.push_back(&problem);
    seeds_of.push_back(seeds[i]);
    place.push_back(i);
  }

  std::vector<EvidenceAnswer> found(searched.size());
  std::unique_ptr<Portion> running;
  for (std::size_t first = 0; first < searched.size() && !control.stop();) {
    const std::size_t last = end_of_portion(first, searched.size(), [&](std::size_t i) { return needs[i].bytes; });
    const auto part = [&](auto& all) { return std::span(all).subspan(first, last - first); };
    auto next = std::make_unique<Portion>(part(searched), part(seeds_of), part(needs), first, options);
    next->start(control);
    if (running != nullptr) running->finish(found, control);
    running = std::move(next);
    control.report(static_cast<double>(first) / static_cast<double>(searched.size()));
    first = last;
  }
  if (running != nullptr) running->finish(found, control);

  for (std::size_t k = 0; k < place.size(); ++k) {
    EvidenceAnswer& answer = answers[place[k]];
    const std::uint32_t patience = answer.patience;
    answer = std::move(found[k]);
    answer.patience = patience;
    if (answer.reads == 0) answer.stopped = control.reason();
  }
  Control counting(kNoLimit);
  parallel_for(answers.size(), options.threads, counting, [&](std::size_t i) {
    std::sort(answers[i].selection.begin(), answers[i].selection.end());
    answers[i].value = problems[i]->evaluate(answers[i].selection);
  });
  for (EvidenceAnswer& answer : answers) answer.search_seconds = control.seconds();
  return answers;
}

}  // namespace isinglass::cuda
