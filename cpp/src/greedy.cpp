#include "isinglass/greedy.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "isinglass/packing_kernels.hpp"
#include "isinglass/parallel.hpp"
#include "isinglass/polish.hpp"
#include "isinglass/tournament.hpp"

namespace isinglass {
namespace {

constexpr Item kNone = -1;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t index(Item item) { return static_cast<std::size_t>(item); }

/// The newest known gains at some size of the greedy set: upper bounds for every later prefix.
struct Snapshot {
  std::size_t picks = 0;
  AlignedVector<double> gain;
  double largest = 0;  // of the items not picked
};

/// What a prefix of the greedy set was, where getting there again is dear.
struct Checkpoint {
  std::size_t size = 0;
  PackingState state;
  Purse purse;
};

/// Memory of a run, kept by the thread: packing a few dozen passages takes less time than allocating for it.
struct Workspace {
  PackingState state;
  Purse purse;
  // By item, padded with zeros to a multiple of 16; 0 for what may not be picked.
  AlignedVector<double> gain;        // newest known gain of each item; 0 once it is picked
  AlignedVector<double> first_gain;  // gain beside the pinned items alone
  std::vector<Snapshot> snapshots;   // at growing sizes of the greedy set, the first `num_snapshots` of them
  std::size_t num_snapshots = 0;
  std::vector<std::size_t> fresh_at;  // size of the set for which `gain` is exact
  Tournament queue;                   // by density, once exact: upper bounds of today's, since gains only fall
  std::vector<Item> open, stale, rivals;
  std::vector<Item> picked, path;
  std::vector<double> picked_gains, path_gains;
  std::vector<double> values;  // F of each greedy prefix
  std::vector<std::uint8_t> in_set;
  PricedKnapsack knapsack;
  FractionalKnapsack capped_knapsack;
  std::vector<Checkpoint> checkpoints;  // of this run the first `num_checkpoints`, or all: the latest, in any order
  std::size_t num_checkpoints = 0;
};

class Run {
 public:
  Run(const PackingProblem& problem, const GreedyOptions& options, CertificateLevel certificate, Control& control,
      Workspace& workspace)
      : problem_(problem),
        view_(problem.view()),
        options_(options),
        certificate_(certificate),
        control_(control),
        kernels_(packing_kernels()),
        w_(workspace) {}

  Packing solve() {
    start(kNone);
    first_pass();
    run_greedy();
    online_bounds_at_ends();
    if (options_.plus_max) {
      improve_by_max();
    } else {
      improve_by_single();
    }

    Packing out;
    out.selection = w_.picked;
    out.gains = w_.picked_gains;
    if (options_.high_effort) deepen(out);
    out.level = level();
    out.search_seconds = control_.seconds() - bound_seconds_;
    certify(out);
    out.gain_evaluations = evaluations_;
    out.stopped = control_.reason();
    return out;
  }

  Packing adopt(GreedyTrace& trace) {
    bound_.value = kInfinity;
    complete_ = true;
    any_eligible_ = !problem_.eligible_items().empty();
    w_.knapsack.reset(problem_);
    const auto restore = [&](const GreedyTrace::State& state) {
      value_ = state.value;
      w_.gain.assign(state.gain.begin(), state.gain.end());
    };
    restore(trace.states.front());
    w_.first_gain.assign(w_.gain.begin(), w_.gain.end());
    w_.values.assign(trace.picks + 1, value_);
    for (std::size_t k = 1; k + 1 < trace.states.size(); ++k) {
      restore(trace.states[k]);
      online_bound();
    }
    restore(trace.states.back());
    online_bounds_at_ends();
    Packing out;
    out.selection = std::move(trace.selection);
    out.gains = std::move(trace.gains);
    certify(out);
    out.gain_evaluations = trace.gain_evaluations;
    return out;
  }

  /// The run that begins with one item beside the pinned ones; `first_gain` bounds every gain. Leaves the answer in the
  /// workspace, returns its value.
  double solve_from(Item guess, std::span<const double> first_gain) {
    start(guess);
    w_.gain.assign(first_gain.begin(), first_gain.end());
    w_.gain[index(guess)] = 0;
    w_.fresh_at.assign(problem_.size(), kNever);
    collect_open();
    run_greedy();
    if (options_.plus_max) improve_by_max();
    return value_;
  }

 private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kTogether = 16;  // of a few sizes the best at n = 20 .. 1,000
  // The last third or so of the picks stays at hand.
  static constexpr std::size_t kCheckpointsPerDoubling = 16, kCheckpointsKept = 6;
  static constexpr std::size_t kRefreshAfter = 4;  // picks: the best of 1 .. 8 on n = 20 .. 1,000

  /// Asks the control once for every so much work: for a dozen passages its clock would cost as much as the search.
  bool stop() {
    constexpr std::size_t kWorkBetween = 1 << 14;  // similarities looked at
    if ((evaluations_ - asked_at_) * (problem_.size() + 16) < kWorkBetween) return false;
    asked_at_ = evaluations_;
    return control_.stop();
  }

  double density(Item item) const { return w_.gain[index(item)] / view_.costs[index(item)]; }
  bool fresh(Item item) const { return w_.fresh_at[index(item)] == w_.picked.size(); }
  bool has_room() const { return w_.picked.size() < view_.max_items; }

  void refresh(Item item) {
    w_.gain[index(item)] = w_.state.gain(item);
    w_.fresh_at[index(item)] = w_.picked.size();
    ++evaluations_;
  }

  /// The same for many, in slices between which the control is asked; false once it has stopped.
  bool refresh_many(std::span<const Item> items) {
    constexpr std::size_t kMost = 128;
    const std::size_t at_once = std::min(kMost, w_.state.gains_at_once());
    for (std::size_t begin = 0; begin < items.size(); begin += at_once) {
      const auto slice = items.subspan(begin, std::min(at_once, items.size() - begin));
      double gains[kMost];
      w_.state.gains(slice, gains);
      for (std::size_t k = 0; k < slice.size(); ++k) {
        w_.gain[index(slice[k])] = gains[k];
        w_.fresh_at[index(slice[k])] = w_.picked.size();
      }
      evaluations_ += slice.size();
      if (stop()) return false;
    }
    return true;
  }

  void take(Item item, double gain) {
    w_.state.add(item);
    w_.purse.spend(item);
    value_ += gain;
    w_.picked.push_back(item);
    w_.picked_gains.push_back(gain);
  }

  void clear_set() {
    w_.state.reset(problem_);
    w_.purse.reset(problem_);
    w_.picked.clear();
    w_.picked_gains.clear();
    value_ = 0;
  }

  void start(Item guess) {
    clear_set();
    for (Item item : view_.pinned) take(item, w_.state.gain(item));
    if (guess != kNone) take(guess, w_.state.gain(guess));
    start_size_ = w_.picked.size();
    bound_.value = kInfinity;
  }

  void first_pass() {
    const std::size_t n = problem_.size();
    w_.gain.assign(problem_.load().size(), 0.0);
    w_.fresh_at.assign(n, kNever);
    w_.open.assign(problem_.eligible_items().begin(), problem_.eligible_items().end());
    refresh_many(w_.open);
    w_.first_gain.assign(w_.gain.begin(), w_.gain.end());
    any_eligible_ = !w_.open.empty();
    // Gains of items that were never looked at bound nothing.
    complete_ = control_.reason() == StopReason::none && view_.is_bounded();
    w_.knapsack.reset(problem_);
  }

  void run_greedy() {
    fill_queue();
    w_.values.assign(1, value_);
    w_.num_snapshots = 0;
    w_.num_checkpoints = 0;
    snapshot();
    std::size_t next_checkpoint = keeps_checkpoints() ? kRefreshAfter : kNever;
    while (has_room() && !stop()) {
      if (!lazy_) refresh_queue();
      const Item item = next();
      if (item == kNone) break;
      pick(item);
      drop_misfits();
      w_.values.push_back(value_);
      const std::size_t picks = w_.values.size() - 1;
      if (picks == kRefreshAfter && complete_) refresh_all();
      if (picks == next_checkpoint) {
        keep_checkpoint();
        next_checkpoint += std::max<std::size_t>(1, picks / kCheckpointsPerDoubling);
      }
      // A bound costs O(n): at every doubling from where the gains are exact.
      if (picks >= kRefreshAfter && (picks & (picks - 1)) == 0) {
        online_bound();
        snapshot();
      }
    }
  }

  /// Where gains may rise none of before bounds any of now: all that fit are looked at.
  void refresh_queue() {
    collect_open();
    refresh_many(w_.open);
    w_.queue.reset(problem_.size());
    for (Item item : w_.open) {
      if (w_.gain[index(item)] > 0) w_.queue.leaves()[index(item)] = density(item);
    }
    w_.queue.rebuild();
  }

  /// Exact gains of all once the first picks have taken what is common to many items: nearly free, since it saves
  /// later refreshing, and the bound at this prefix is the tightest of most runs (gaps fall by a third to a half).
  void refresh_all() {
    w_.stale.clear();
    for (Item item : w_.open) {
      if (w_.gain[index(item)] > 0 && !fresh(item)) w_.stale.push_back(item);
    }
    refresh_many(w_.stale);
    for (Item item : w_.stale) {
      if (w_.queue[index(item)] != Tournament::kAbsent) w_.queue.leaves()[index(item)] = density(item);
    }
    w_.queue.rebuild();
  }

  /// Whether adding an item takes so long that doing it again is worth avoiding.
  bool keeps_checkpoints() const {
    constexpr std::size_t kDear = std::size_t{1} << 20;  // multiply-adds
    return view_.embeddings != nullptr && view_.num_targets() * view_.embeddings->dimension() >= kDear;
  }

  void keep_checkpoint() {
    if (w_.checkpoints.empty()) w_.checkpoints.resize(kCheckpointsKept);
    Checkpoint& kept = w_.checkpoints[w_.num_checkpoints++ % kCheckpointsKept];
    kept.size = w_.picked.size();
    kept.state = w_.state;
    kept.purse = w_.purse;
  }

  /// Makes the set what it was at the last checkpoint that holds no more than `size` items, or the empty one.
  void rewind(std::size_t size) {
    const Checkpoint* from = nullptr;
    for (std::size_t k = 0; k < std::min(w_.num_checkpoints, kCheckpointsKept); ++k) {
      const Checkpoint& kept = w_.checkpoints[k];
      if (kept.size <= size && (from == nullptr || kept.size > from->size)) from = &kept;
    }
    if (from == nullptr) {
      clear_set();
      return;
    }
    w_.state = from->state;
    w_.purse = from->purse;
    w_.picked.resize(from->size);
    w_.picked_gains.resize(from->size);
    value_ = w_.values[from->size - start_size_];
  }

  void snapshot() {
    if (w_.num_snapshots == w_.snapshots.size()) w_.snapshots.emplace_back();
    Snapshot& taken = w_.snapshots[w_.num_snapshots++];
    taken.picks = w_.values.size() - 1;
    taken.gain.assign(w_.gain.begin(), w_.gain.end());
    taken.largest = w_.gain.empty() ? 0 : kernels_.largest(w_.gain.data(), w_.gain.size()).value;
  }

  void pick(Item item) {
    take(item, w_.gain[index(item)]);
    w_.gain[index(item)] = 0;
    w_.queue.remove(index(item));
  }

  /// All open items, by their newest known gains.
  void fill_queue() {
    w_.queue.reset(problem_.size());
    w_.rivals.resize(problem_.size());
    for (Item item : w_.open) w_.queue.leaves()[index(item)] = density(item);
    w_.queue.rebuild();
  }

  /// Leaves to `next` what it can drop one by one where that is cheaper.
  void drop_misfits() {
    if (w_.queue.flat() && !view_.integer_costs.empty()) w_.queue.drop_above(problem_.load(), w_.purse.left());
  }

  /// The item of largest density among those that fit and add something, as plain greedy would choose it. What is left
  /// of the budget never grows along a run, so an item that does not fit leaves the queue for good.
  Item next() {
    // Rounding may let a fresh gain exceed a stale one by twice its error. So the best fresh item is final only once
    // every stale density, widened by that much, lies below it.
    const double slack = 2 * problem_.gain_slack() / problem_.cheapest();
    double reached = 0;  // the best density that is fresh
    for (std::size_t steps = w_.queue.flat() ? 1 : problem_.size();; steps *= 2) {
      // One after another from the front, as long as many could still be better ..
      bool last = false;
      for (std::size_t k = 0; k < steps && !last; ++k) {
        const Largest top = w_.queue.top();
        if (top.value == Tournament::kAbsent) return kNone;
        const auto item = static_cast<Item>(top.index);
        const bool was_fresh = fresh(item);
        if (!keep_if_fresh(item)) continue;
        reached = std::max(reached, density(item));
        last = was_fresh;  // what is left is no denser, but for ties and rounding
      }
      if (reached == 0) continue;
      const std::span<const Item> rivals(w_.rivals.data(), w_.queue.collect(reached - slack, w_.rivals.data()));
      if (rivals.size() == 1) return rivals.front();
      w_.stale.clear();
      for (Item item : rivals) {
        if (!fresh(item)) w_.stale.push_back(item);
      }
      if (w_.stale.size() > kTogether && !last) continue;
      // .. and the last ones together, since they need not wait for each other.
      refresh_many(w_.stale);
      Item best = kNone;
      for (Item item : rivals) {
        if (keep_if_fresh(item) && (best == kNone || density(item) > density(best))) best = item;
      }
      return best;
    }
  }

  /// Brings an item of the queue up to date; false where it had to leave: it has no room, or adds nothing now and never
  /// will.
  bool keep_if_fresh(Item item) {
    bool kept = w_.purse.fits(item);
    if (kept) {
      if (!fresh(item)) refresh(item);
      kept = w_.gain[index(item)] > 0;
    }
    w_.queue.set(index(item), kept ? density(item) : Tournament::kAbsent);
    return kept;
  }

  /// The best single item beside the pinned ones, where it alone beats the greedy set.
  void improve_by_single() {
    Item single = kNone;
    double gain = value_ - w_.values.front();
    for (Item item : problem_.eligible_items()) {
      if (w_.first_gain[index(item)] > gain) {
        single = item;
        gain = w_.first_gain[index(item)];
      }
    }
    if (single == kNone) return;
    clear_set();
    for (Item item : view_.pinned) take(item, w_.state.gain(item));
    take(single, w_.state.gain(single));
  }

  /// Greedy+Max. The value of a prefix only grows, so prefixes that even the largest gain cannot lift above the greedy
  /// value are passed over. Of the others only items are looked at whose newest known gain could still win, and the run
  /// is replayed no further than to the last prefix that has one: mostly there is none.
  void improve_by_max() {
    if (control_.reason() != StopReason::none) return;
    const double slack = 2 * problem_.gain_slack();
    const std::size_t last = w_.picked.size();
    std::size_t size = start_size_, known = 0;
    for (; size < last; ++size) {
      if (!lazy_) break;
      while (known + 1 < w_.num_snapshots && w_.snapshots[known + 1].picks <= size - start_size_) ++known;
      if (w_.values[size - start_size_] + w_.snapshots[known].largest + slack > value_) break;
    }
    // Beside the whole greedy set nothing fits that adds anything.
    if (size == last) return;
    const double greedy_value = value_;
    w_.path.assign(w_.picked.begin(), w_.picked.end());
    w_.path_gains.assign(w_.picked_gains.begin(), w_.picked_gains.end());
    w_.gain.assign(w_.snapshots[known].gain.begin(), w_.snapshots[known].gain.end());
    double best_value = value_;
    std::size_t best_size = last;
    Item best = kNone;

    const auto replay_to = [&](std::size_t to) {
      if (w_.picked.size() > to) rewind(to);
      for (std::size_t k = w_.picked.size(); k < to; ++k) take(w_.path[k], w_.path_gains[k]);
    };
    double left = kInfinity;
    if (!view_.integer_costs.empty()) {
      left = static_cast<double>(view_.integer_budget);
      for (std::size_t k = 0; k < size; ++k) left -= problem_.load()[index(w_.path[k])];
    }
    for (std::size_t k = 0; k < size; ++k) w_.gain[index(w_.path[k])] = -kInfinity;
    const std::size_t n = w_.gain.size();
    for (; size < std::min(last, view_.max_items); ++size) {
      const double value = w_.values[size - start_size_];
      if (!lazy_) {
        std::fill(w_.gain.begin(), w_.gain.end(), kInfinity);
        for (std::size_t k = 0; k < size; ++k) w_.gain[index(w_.path[k])] = -kInfinity;
      }
      for (std::size_t i = 0;
           (i = kernels_.next_above(w_.gain.data(), problem_.load().data(), value, slack, best_value, left, i, n)) < n;
           ++i) {
        const auto item = static_cast<Item>(i);
        if (i >= problem_.size() || !problem_.eligible()[i]) continue;
        if (w_.picked.size() != size) replay_to(size);
        if (!w_.purse.fits(item)) continue;
        refresh(item);
        if (value + w_.gain[i] > best_value) {
          best_value = value + w_.gain[i];
          best_size = size;
          best = item;
        }
      }
      if (stop()) break;
      left -= problem_.load()[index(w_.path[size])];
      w_.gain[index(w_.path[size])] = -kInfinity;
    }
    if (best == kNone) {
      // The answer is the greedy set; nothing asks for its state.
      w_.picked.assign(w_.path.begin(), w_.path.end());
      w_.picked_gains.assign(w_.path_gains.begin(), w_.path_gains.end());
      value_ = greedy_value;
      return;
    }
    replay_to(best_size);
    take(best, w_.state.gain(best));
    fill_up();
  }

  /// Spends what the set has left, by density: F is monotone, so nothing is lost.
  void fill_up() {
    collect_open();
    if (w_.open.empty() || !has_room()) return;
    if (!refresh_many(w_.open)) return;
    fill_queue();
    while (has_room() && !stop()) {
      if (!lazy_) refresh_queue();
      const Item item = next();
      if (item == kNone) break;
      pick(item);
      drop_misfits();
    }
  }

  /// The best of one run from each first item, polished, where that beats what there is.
  void deepen(Packing& out) {
    struct Guess {
      double value = 0;
      std::vector<Item> selection;
      std::size_t evaluations = 0;
    };
    std::vector<Guess> guesses(problem_.size());
    const std::span<const double> first_gain = w_.first_gain;
    const double reached = value_;
    parallel_for(guesses.size(), options_.threads, control_, [&](std::size_t i) {
      if (!problem_.eligible()[i] || first_gain[i] <= 0) return;
      thread_local Workspace workspace;
      Run run(problem_, options_, certificate_, control_, workspace);
      guesses[i].value = run.solve_from(static_cast<Item>(i), first_gain);
      guesses[i].evaluations = run.evaluations_;
      if (guesses[i].value > reached) guesses[i].selection = workspace.picked;
    });
    double best_value = reached;
    std::vector<Item> best = out.selection;
    for (const Guess& guess : guesses) {
      evaluations_ += guess.evaluations;
      if (guess.value > best_value) {
        best_value = guess.value;
        best = guess.selection;
      }
    }
    polish(problem_, best, control_);
    std::vector<double> gains = replay(problem_, best);
    if (evaluate(problem_, best) > evaluate(problem_, out.selection)) {
      out.selection = std::move(best);
      out.gains = std::move(gains);
    }
  }

  /// Items, ascending, that may be picked beside the set.
  void collect_open() {
    w_.in_set.assign(problem_.size(), 0);
    for (Item item : w_.picked) w_.in_set[index(item)] = 1;
    w_.open.clear();
    for (Item item : problem_.eligible_items()) {
      if (!w_.in_set[index(item)] && w_.purse.fits(item)) w_.open.push_back(item);
    }
  }

  /// OPT <= F(S) + the best fractional knapsack of the gains at S (Leskovec et al. 2007, "Cost-effective outbreak
  /// detection in networks"); stale gains only loosen it. Items that no longer fit beside S count too.
  void online_bound() {
    if (!complete_) return;
    const double begin = timed() ? control_.seconds() : 0;
    lower_bound_to(value_ + knapsack(w_.gain, bound_.value - value_));
    if (timed()) bound_seconds_ += control_.seconds() - begin;
  }

  void online_bounds_at_ends() {
    // Of longer runs the bound where the gains were refreshed is nearly always the better one.
    if (w_.values.size() <= 4 * kRefreshAfter) online_bound();
    if (w_.values.size() <= 2 * kRefreshAfter) online_bound_at_start();
  }

  void online_bound_at_start() {
    if (complete_) lower_bound_to(w_.values.front() + knapsack(w_.first_gain, bound_.value - w_.values.front()));
  }

  /// A look at the clock takes as long as a bound of a few dozen items: those count as search.
  bool timed() const { return problem_.size() >= 256; }

  double knapsack(const AlignedVector<double>& gain, double reached) {
    if (view_.max_items >= problem_.size()) return w_.knapsack.solve(gain.data(), reached);
    w_.capped_knapsack.reset(problem_);
    for (Item item : problem_.eligible_items()) w_.capped_knapsack.push(item, gain[index(item)]);
    return w_.capped_knapsack.solve();
  }

  void lower_bound_to(double value) {
    const double slack = problem_.gain_slack() * static_cast<double>(problem_.size() + 1);
    bound_.lower_to(value + slack, BoundMethod::online);
  }

  void certify(Packing& out) {
    const double begin = control_.seconds();
    recount(problem_, out);
    if (certificate_ == CertificateLevel::tight && view_.is_bounded() && control_.reason() == StopReason::none) {
      bound_.lower_to(concave_bound(problem_, out.selection, control_), BoundMethod::concave);
    }
    bound_.lower_to(problem_.total_bound(), BoundMethod::total);
    // Where nothing can be added the answer is the optimum itself; elsewhere a bound below a value that was reached
    // could only come from rounding.
    if (!view_.is_bounded()) bound_.value = kInfinity;
    const bool only_one = !any_eligible_ && control_.reason() == StopReason::none;
    if (only_one || bound_.value < out.value) bound_.value = out.value;
    out.bound = bound_;
    out.certificate_seconds = bound_seconds_ + (control_.seconds() - begin);
  }

  const PackingProblem& problem_;
  const PackingView& view_;
  const GreedyOptions options_;
  const CertificateLevel certificate_;
  Control& control_;
  const PackingKernels& kernels_;
  Workspace& w_;
  const bool lazy_ = view_.is_submodular();

  double value_ = 0;
  std::size_t start_size_ = 0;  // of the set: what is pinned, and the guess
  Bound bound_;
  double bound_seconds_ = 0;
  std::size_t evaluations_ = 0, asked_at_ = 0;
  bool any_eligible_ = false;
  bool complete_ = false;  // every eligible item has a gain
};

}  // namespace

void recount(const PackingProblem& problem, Packing& packing) {
  const PackingView& view = problem.view();
  packing.value = evaluate(problem, packing.selection);
  const Spending spent = spending(view, packing.selection);
  packing.cost = spent.cost;
  packing.feasible = spent.within_budget && packing.selection.size() <= std::max(view.max_items, view.pinned.size());
}

Packing greedy(const PackingProblem& problem, const GreedyOptions& options, CertificateLevel certificate,
               Control& control) {
  constexpr std::size_t kKept = 65536;  // items; beyond, allocating costs nothing beside the search
  if (problem.size() > kKept) {
    Workspace workspace;
    return Run(problem, options, certificate, control, workspace).solve();
  }
  thread_local Workspace workspace;
  return Run(problem, options, certificate, control, workspace).solve();
}

Packing answer_of(const PackingProblem& problem, GreedyTrace trace, CertificateLevel certificate, Control& control) {
  thread_local Workspace workspace;
  return Run(problem, {}, certificate, control, workspace).adopt(trace);
}

}  // namespace isinglass
