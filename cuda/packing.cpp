#include "packing.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "isinglass/embeddings.hpp"
#include "isinglass/parallel.hpp"
#include "packing_kernels.hpp"
#include "runtime.hpp"
#include "staging.hpp"

namespace isinglass::cuda {
namespace {

std::size_t padded(std::size_t n) { return (n + 15) / 16 * 16; }

PackingQuery describe(const PackingProblem& problem, Stage& stage) {
  const PackingView& view = problem.view();
  PackingQuery q{};
  q.n = static_cast<std::uint32_t>(view.n);
  q.num_pinned = static_cast<std::uint32_t>(view.pinned.size());
  q.max_items = static_cast<std::uint32_t>(std::min(view.max_items, view.n));
  q.relevance_scale = problem.relevance_scale();
  q.coverage_scale = problem.coverage_scale();
  q.representation_scale = problem.representation_scale();
  q.diversity_scale = problem.diversity_scale();
  q.facility_scale = problem.facility_scale();
  q.slack = 2 * problem.gain_slack();
  q.cheapest = problem.cheapest();
  q.budget = view.budget;
  q.integer_budget = view.integer_budget;

  q.cost = stage.copy(view.costs);
  if (!view.integer_costs.empty()) q.integer_cost = stage.copy(view.integer_costs);
  q.eligible = stage.copy(problem.eligible());
  q.pinned = stage.copy(view.pinned);
  if (q.relevance_scale > 0 || q.diversity_scale > 0) q.relevance = stage.copy(view.relevance);
  if (q.representation_scale > 0 || q.facility_scale > 0) {
    q.targets = static_cast<std::uint32_t>(padded(view.num_targets()));
    q.rows = stage.place<float>(view.n * q.targets, [&](float* to) {
      for (std::size_t i = 0; i < view.n; ++i, to += q.targets) {
        if (view.embeddings != nullptr) {
          view.embeddings->row(i, to);
        } else {
          std::copy_n(problem.row(i), q.targets, to);
        }
      }
    });
  }
  if (q.representation_scale > 0) {
    q.degree = stage.copy(problem.degree());
    q.cap = stage.copy(problem.cap());
  }
  if (q.coverage_scale > 0 && problem.bitmask_coverage()) {
    q.term_mask = stage.copy(problem.coverage_mask());
  } else if (q.coverage_scale > 0) {
    const auto first = view.coverage.row_start.front(), last = view.coverage.row_start.back();
    q.num_terms = static_cast<std::uint32_t>(view.term_weights.size());
    q.term_start = stage.place<std::uint32_t>(view.n + 1, [&](std::uint32_t* to) {
      for (std::int64_t start : view.coverage.row_start) *to++ = static_cast<std::uint32_t>(start - first);
    });
    q.term_list = stage.copy(
        view.coverage.column.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)));
    q.term_weight = stage.copy(view.term_weights);
  }
  if (q.diversity_scale > 0) {
    q.num_groups = static_cast<std::uint32_t>(view.num_groups);
    q.group = stage.copy(view.groups);
  }
  return q;
}

std::uint32_t snapshots_of(std::size_t n) {
  std::uint32_t count = 2;  // the start and the end
  for (std::size_t picks = kRefreshAfter; picks <= n; picks *= 2) ++count;
  return count;
}
static_assert(kMostItems >> 10 == 1 && kMostSnapshots >= 2 + 9);

struct Plan {
  std::size_t bytes = 0;         // of input
  std::size_t shared_bytes = 0;  // of the block
  std::uint32_t work = 0;        // of one launch
};

/// Gains, and looks at the queue, that a warp forms in some 20 ms.
std::uint32_t work_of_launch(std::size_t n) {
  constexpr double kSeconds = 0.02, kSecondsOfStep = 2e-8, kSecondsBesides = 2e-7;
  return static_cast<std::uint32_t>(kSeconds / (kSecondsBesides + kSecondsOfStep * static_cast<double>(n) / 16));
}

void refuse(std::size_t index, const std::string& what) {
  throw std::invalid_argument("backend 'cuda' takes packing problems " + what + " (problem " + std::to_string(index) +
                              ")");
}

Plan plan_of(const PackingProblem& problem, std::size_t index, const PackOptions& options, std::size_t shared_bytes) {
  const PackingView& view = problem.view();
  if (view.n > kMostItems) refuse(index, "of at most 1024 items, got " + std::to_string(view.n));
  if (!view.terms.empty()) {
    refuse(index, "without terms of the caller's own, got " + std::to_string(view.terms.size()));
  }
  if (!view.sparse_similarity.row_start.empty() &&
      (problem.representation_scale() > 0 || problem.facility_scale() > 0)) {
    refuse(index, "with a dense similarity or embeddings, got a sparse similarity");
  }
  Stage sizes;
  const PackingQuery query = describe(problem, sizes);
  const Plan plan{sizes.at(), PackingArena::of(query).bytes,
                  options.most_work > 0 ? options.most_work : work_of_launch(view.n)};
  if (plan.shared_bytes > shared_bytes) {
    refuse(index, "that take at most " + std::to_string(shared_bytes) + " bytes of shared memory, got one of " +
                      std::to_string(plan.shared_bytes));
  }
  return plan;
}

/// A run of problems on its way through the device.
class Portion {
 public:
  Portion(std::span<const PackingProblem* const> problems, std::span<const Plan> plans, std::size_t first,
          const PackOptions& options)
      : problems_(problems), first_(first), options_(options), batch_(options.device) {
    std::size_t bytes = 0, largest = 0;
    std::uint32_t work = std::numeric_limits<std::uint32_t>::max();
    for (std::size_t k = 0; k < problems.size(); ++k) {
      offsets_.push_back(bytes);
      bytes += plans[k].bytes;
      largest = std::max(largest, problems[k]->size());
      shared_bytes_ = std::max(shared_bytes_, plans[k].shared_bytes);
      work = std::min(work, plans[k].work);
    }
    stride_ = padded(largest);
    args_.stride = static_cast<std::uint32_t>(stride_);
    args_.num_snapshots = snapshots_of(largest);
    args_.most_work = work;
    args_.plus_max = options.plus_max;
    const std::size_t count = problems.size();
    queries_ = batch_.input<PackingQuery>(count);
    data_ = batch_.input<std::byte>(bytes);
    answers_ = batch_.output<PackingAnswer>(count);
    selection_ = batch_.output<std::int32_t>(count * stride_);
    gains_ = batch_.output<double>(count * stride_);
    snapshots_ = batch_.output<double>(count * args_.num_snapshots * stride_);
    states_ = batch_.output<PackingState>(count);
    const auto item_gains = batch_.scratch<double>(count * 2 * stride_);
    const auto fresh_at = batch_.scratch<std::uint16_t>(count * stride_);
    const auto flags = batch_.scratch<std::uint8_t>(count * stride_);
    batch_.allocate();
    args_.queries = batch_.device(queries_);
    args_.answers = batch_.device(answers_);
    args_.selection = batch_.device(selection_);
    args_.gains = batch_.device(gains_);
    args_.snapshots = batch_.device(snapshots_);
    args_.states = batch_.device(states_);
    args_.item_gains = batch_.device(item_gains);
    args_.fresh_at = batch_.device(fresh_at);
    args_.flags = batch_.device(flags);
  }

  std::size_t end() const { return first_ + problems_.size(); }

  void start(Control& control) {
    const std::span<PackingQuery> queries = batch_.host(queries_);
    std::byte* const host = batch_.host(data_).data();
    const std::byte* const device = batch_.device(data_);
    parallel_for(problems_.size(), options_.threads, control, [&](std::size_t k) {
      Stage stage(host, device, offsets_[k]);
      queries[k] = describe(*problems_[k], stage);
    });
    if (control.reason() != StopReason::none) return;
    batch_.upload();
    launch(true);
    started_ = true;
  }

  /// Launches until all is packed, or the control stops: then what is not `done` has no answer.
  void finish(std::span<Packing> packings, std::span<std::uint8_t> done, Control& control) {
    if (!started_) return;
    const std::span<const PackingState> states = batch_.host(states_);
    const auto packed = [](const PackingState& state) { return state.stage == PackingStage::packed; };
    for (;;) {
      batch_.wait();
      if (std::ranges::all_of(states, packed) || control.stop()) break;
      launch(false);
    }
    const double searched = control.seconds();
    Control certifying(std::numeric_limits<double>::infinity());
    parallel_for(problems_.size(), options_.threads, certifying, [&](std::size_t k) {
      if (!packed(states[k])) return;
      packings[first_ + k] = answer(k, control);
      packings[first_ + k].search_seconds = searched;
      done[first_ + k] = 1;
    });
  }

 private:
  void launch(bool first) {
    args_.first = first;
    batch_.launch(packing_greedy, {static_cast<unsigned>(problems_.size()), 32, shared_bytes_}, args_);
    batch_.download();
  }

  Packing answer(std::size_t k, Control& control) const {
    const std::size_t n = padded(problems_[k]->size());
    const PackingAnswer& found = batch_.host(answers_)[k];
    const auto row = [&](auto array, std::size_t count) { return batch_.host(array).subspan(k * stride_, count); };
    GreedyTrace trace;
    trace.picks = found.picks;
    trace.gain_evaluations = found.evaluations;
    const auto selection = row(selection_, found.size);
    trace.selection.assign(selection.begin(), selection.end());
    const auto gains = row(gains_, found.size);
    trace.gains.assign(gains.begin(), gains.end());
    for (std::size_t slot = 0; slot < found.num_snapshots; ++slot) {
      trace.states.push_back(
          {found.values[slot], batch_.host(snapshots_).subspan((k * args_.num_snapshots + slot) * stride_, n)});
    }
    return answer_of(*problems_[k], std::move(trace), options_.certificate, control);
  }

  std::span<const PackingProblem* const> problems_;
  std::size_t first_;
  const PackOptions& options_;
  Batch batch_;
  std::vector<std::size_t> offsets_;
  std::size_t shared_bytes_ = 0, stride_ = 0;
  PackingArgs args_{};
  bool started_ = false;
  Array<PackingQuery> queries_;
  Array<std::byte> data_;
  Array<PackingAnswer> answers_;
  Array<std::int32_t> selection_;
  Array<double> gains_, snapshots_;
  Array<PackingState> states_;
};

}  // namespace

std::vector<Packing> pack(std::span<const PackingProblem* const> problems, const PackOptions& options,
                          Control& control) {
  check_device(options.device);
  std::vector<Plan> plans;
  const std::size_t shared_bytes = driver::info(options.device).shared_bytes;
  for (std::size_t i = 0; i < problems.size(); ++i) plans.push_back(plan_of(*problems[i], i, options, shared_bytes));

  std::vector<Packing> packings(problems.size());
  std::vector<std::uint8_t> done(problems.size(), 0);
  std::unique_ptr<Portion> running;
  for (std::size_t first = 0; first < problems.size() && !control.stop();) {
    const std::size_t last = end_of_portion(first, problems.size(), [&](std::size_t i) { return plans[i].bytes; });
    auto next = std::make_unique<Portion>(problems.subspan(first, last - first),
                                          std::span(plans).subspan(first, last - first), first, options);
    next->start(control);
    if (running != nullptr) running->finish(packings, done, control);
    running = std::move(next);
    control.report(static_cast<double>(first) / static_cast<double>(problems.size()));
    first = last;
  }
  if (running != nullptr) running->finish(packings, done, control);
  // What the clock left out gets the answer of a run without time: what is pinned, and a bound.
  if (control.reason() == StopReason::time_limit) {
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (done[i] == 0) {
        packings[i] = greedy(*problems[i], {.plus_max = options.plus_max}, options.certificate, control);
      }
    }
  }
  return packings;
}

}  // namespace isinglass::cuda
