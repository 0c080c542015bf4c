#include "isinglass/greedy.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "isinglass/parallel.hpp"
#include "isinglass/polish.hpp"

namespace isinglass {
namespace {

constexpr Item kNone = -1;

std::size_t index(Item item) { return static_cast<std::size_t>(item); }

/// A density that was exact for some earlier prefix: an upper bound of today's, since gains only fall.
struct Stale {
  double density;
  Item item;
};

/// Order of choice: larger density first, then the lower index. As a heap's "less": the top is the first choice.
struct Later {
  bool operator()(const Stale& a, const Stale& b) const {
    return a.density < b.density || (a.density == b.density && a.item > b.item);
  }
};

/// The newest known gains at some size of the greedy set: upper bounds for every later prefix.
struct Snapshot {
  std::size_t picks = 0;
  std::vector<double> gain;
  double largest = 0;  // of the items not picked
};

/// Memory of a run, kept by the thread: packing a few dozen passages takes less time than allocating for it.
struct Workspace {
  PackingState state;
  Purse purse;
  std::vector<double> gain;         // newest known gain of each item
  std::vector<double> first_gain;   // gain beside the pinned items alone
  std::vector<Snapshot> snapshots;  // at growing sizes of the greedy set, the first `num_snapshots` of them
  std::size_t num_snapshots = 0;
  std::vector<std::size_t> fresh_at;  // size of the set for which `gain` is exact
  std::vector<Item> unpicked;         // may be in a solution and are not in the set, with or without room left
  std::vector<std::size_t> place;     // of each item in `unpicked`
  std::vector<Item> stale;
  std::vector<Stale> heap, refreshed;
  std::vector<Item> picked, path;
  std::vector<double> picked_gains, path_gains;
  std::vector<double> values;  // F of each greedy prefix
  std::vector<std::uint8_t> in_set;
  FractionalKnapsack knapsack;
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
        w_(workspace) {}

  Packing solve() {
    start(kNone);
    first_pass();
    run_greedy();
    online_bound();
    // Of longer runs the bound where the gains were refreshed is nearly always the better one.
    if (w_.values.size() <= 2 * kRefreshAfter) online_bound_at_start();
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

  /// The run that begins with one item beside the pinned ones; `first_gain` bounds every gain. Leaves the answer in the
  /// workspace, returns its value.
  double solve_from(Item guess, std::span<const double> first_gain) {
    start(guess);
    collect_open();
    w_.place.resize(problem_.size());
    for (std::size_t k = 0; k < w_.unpicked.size(); ++k) w_.place[index(w_.unpicked[k])] = k;
    w_.gain.assign(first_gain.begin(), first_gain.end());
    w_.fresh_at.assign(problem_.size(), kNever);
    run_greedy();
    if (options_.plus_max) improve_by_max();
    return value_;
  }

 private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  static constexpr int kDropsBeforeSweep = 8;
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
    constexpr std::size_t kSlice = 64;
    for (std::size_t begin = 0; begin < items.size(); begin += kSlice) {
      const auto slice = items.subspan(begin, std::min(kSlice, items.size() - begin));
      double gains[kSlice];
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
    w_.knapsack.reset(problem_);
    bound_.value = std::numeric_limits<double>::infinity();
  }

  void first_pass() {
    const std::size_t n = problem_.size();
    w_.gain.assign(n, 0.0);
    w_.fresh_at.assign(n, kNever);
    w_.place.resize(n);
    w_.unpicked.clear();
    for (std::size_t i = 0; i < n; ++i) {
      if (!problem_.eligible()[i]) continue;
      w_.place[i] = w_.unpicked.size();
      w_.unpicked.push_back(static_cast<Item>(i));
    }
    refresh_many(w_.unpicked);
    w_.first_gain.assign(w_.gain.begin(), w_.gain.end());
    any_eligible_ = !w_.unpicked.empty();
    // Gains of items that were never looked at bound nothing.
    complete_ = control_.reason() == StopReason::none;
  }

  void run_greedy() {
    build_heap(w_.unpicked);
    w_.values.assign(1, value_);
    w_.num_snapshots = 0;
    snapshot();
    while (has_room() && !stop()) {
      const Item item = next();
      if (item == kNone) break;
      pick(item);
      w_.values.push_back(value_);
      const std::size_t picks = w_.values.size() - 1;
      if (picks == kRefreshAfter && complete_) refresh_all();
      // A bound costs O(n): at every doubling from where the gains are exact.
      if (picks >= kRefreshAfter && (picks & (picks - 1)) == 0) {
        online_bound();
        snapshot();
      }
    }
  }

  /// Exact gains of all once the first picks have taken what is common to many items: nearly free, since it saves
  /// later refreshing, and the bound at this prefix is the tightest of most runs (gaps fall by a third to a half).
  void refresh_all() {
    w_.stale.clear();
    for (const Stale& entry : w_.heap) {
      if (!fresh(entry.item)) w_.stale.push_back(entry.item);
    }
    refresh_many(w_.stale);
    for (Stale& entry : w_.heap) entry.density = density(entry.item);
    std::make_heap(w_.heap.begin(), w_.heap.end(), Later{});
  }

  void snapshot() {
    double largest = 0;
    for (Item item : w_.unpicked) largest = std::max(largest, w_.gain[index(item)]);
    if (w_.num_snapshots == w_.snapshots.size()) w_.snapshots.emplace_back();
    Snapshot& taken = w_.snapshots[w_.num_snapshots++];
    taken.picks = w_.values.size() - 1;
    taken.gain.assign(w_.gain.begin(), w_.gain.end());
    taken.largest = largest;
  }

  void pick(Item item) {
    take(item, w_.gain[index(item)]);
    const std::size_t hole = w_.place[index(item)];
    w_.unpicked[hole] = w_.unpicked.back();
    w_.place[index(w_.unpicked[hole])] = hole;
    w_.unpicked.pop_back();
  }

  void build_heap(const std::vector<Item>& items) {
    w_.heap.clear();
    cheapest_ = std::numeric_limits<double>::infinity();
    for (Item item : items) {
      w_.heap.push_back({density(item), item});
      cheapest_ = std::min(cheapest_, view_.costs[index(item)]);
    }
    std::make_heap(w_.heap.begin(), w_.heap.end(), Later{});
  }

  /// Near the end most of the heap no longer fits: one sweep is cheaper than a pop for each.
  void sweep_heap() {
    std::erase_if(w_.heap, [&](const Stale& entry) { return !w_.purse.fits(entry.item); });
    std::make_heap(w_.heap.begin(), w_.heap.end(), Later{});
  }

  /// The item of largest density among those that fit and add something, as plain greedy would choose it. What is left
  /// of the budget never grows along a run, so an item that does not fit leaves the heap for good.
  Item next() {
    // Rounding may let a fresh gain exceed a stale one by twice its error. So the best fresh item is final only once
    // every stale density, widened by that much, lies below it.
    const double slack = 2 * problem_.gain_slack() / cheapest_;
    Item best = kNone;
    double best_density = 0;
    int drops = 0;
    w_.refreshed.clear();
    while (!w_.heap.empty() && w_.heap.front().density + slack >= best_density) {
      const Stale top = w_.heap.front();
      std::pop_heap(w_.heap.begin(), w_.heap.end(), Later{});
      w_.heap.pop_back();
      if (!w_.purse.fits(top.item)) {
        if (++drops == kDropsBeforeSweep) sweep_heap();
        continue;
      }
      if (!fresh(top.item)) refresh(top.item);
      const double now = density(top.item);
      w_.refreshed.push_back({now, top.item});
      if (w_.gain[index(top.item)] > 0 &&
          (best == kNone || now > best_density || (now == best_density && top.item < best))) {
        best = top.item;
        best_density = now;
      }
    }
    for (const Stale& entry : w_.refreshed) {
      // What adds nothing now never will.
      if (entry.item == best || entry.density <= 0) continue;
      w_.heap.push_back(entry);
      std::push_heap(w_.heap.begin(), w_.heap.end(), Later{});
    }
    return best;
  }

  /// The best single item beside the pinned ones, where it alone beats the greedy set.
  void improve_by_single() {
    Item single = kNone;
    double gain = value_ - w_.values.front();
    for (std::size_t i = 0; i < problem_.size(); ++i) {
      if (problem_.eligible()[i] && w_.first_gain[i] > gain) {
        single = static_cast<Item>(i);
        gain = w_.first_gain[i];
      }
    }
    if (single == kNone) return;
    clear_set();
    for (Item item : view_.pinned) take(item, w_.state.gain(item));
    take(single, w_.state.gain(single));
  }

  /// Greedy+Max. The value of a prefix only grows, so prefixes that even the largest gain cannot lift above the greedy
  /// value are passed over, and the rest is replayed once: there only an item whose newest known gain could still win
  /// is looked at.
  void improve_by_max() {
    if (control_.reason() != StopReason::none) return;
    const double slack = 2 * problem_.gain_slack();
    w_.path.assign(w_.picked.begin(), w_.picked.end());
    w_.path_gains.assign(w_.picked_gains.begin(), w_.picked_gains.end());
    const std::vector<Item>& path = w_.path;
    const std::vector<double>& path_gains = w_.path_gains;
    const std::size_t last = path.size();
    std::size_t size = start_size_, known = 0;
    for (; size < last; ++size) {
      while (known + 1 < w_.num_snapshots && w_.snapshots[known + 1].picks <= size - start_size_) ++known;
      if (w_.values[size - start_size_] + w_.snapshots[known].largest + slack > value_) break;
    }
    // Beside the whole greedy set nothing fits that adds anything.
    if (size == last) return;
    const double greedy_value = value_;
    double best_value = value_;
    std::size_t best_size = last;
    Item best = kNone;

    const auto rewind = [&](std::size_t to) {
      clear_set();
      for (std::size_t k = 0; k < to; ++k) take(path[k], path_gains[k]);
    };
    rewind(size);
    w_.gain.assign(w_.snapshots[known].gain.begin(), w_.snapshots[known].gain.end());
    std::fill(w_.fresh_at.begin(), w_.fresh_at.end(), kNever);
    collect_open();
    for (;; ++size) {
      if (has_room()) {
        for (Item item : w_.unpicked) {
          if (value_ + w_.gain[index(item)] + slack <= best_value || !w_.purse.fits(item)) continue;
          refresh(item);
          if (value_ + w_.gain[index(item)] > best_value) {
            best_value = value_ + w_.gain[index(item)];
            best_size = size;
            best = item;
          }
        }
      }
      if (size + 1 == last || stop()) break;
      take(path[size], path_gains[size]);
      std::erase_if(w_.unpicked, [&](Item item) { return item == path[size] || !w_.purse.fits(item); });
    }
    if (best == kNone) {
      // The answer is the greedy set; nothing asks for its state.
      w_.picked.assign(path.begin(), path.end());
      w_.picked_gains.assign(path_gains.begin(), path_gains.end());
      value_ = greedy_value;
      return;
    }
    rewind(best_size);
    take(best, w_.state.gain(best));
    fill_up();
  }

  /// Spends what the set has left, by density: F is monotone, so nothing is lost.
  void fill_up() {
    collect_open();
    if (w_.unpicked.empty() || !has_room()) return;
    if (!refresh_many(w_.unpicked)) return;
    build_heap(w_.unpicked);
    while (has_room() && !stop()) {
      const Item item = next();
      if (item == kNone) break;
      take(item, w_.gain[index(item)]);
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
    w_.unpicked.clear();
    for (std::size_t i = 0; i < problem_.size(); ++i) {
      const auto item = static_cast<Item>(i);
      if (problem_.eligible()[i] && !w_.in_set[i] && w_.purse.fits(item)) w_.unpicked.push_back(item);
    }
  }

  /// OPT <= F(S) + the best fractional knapsack of the gains at S (Leskovec et al. 2007, "Cost-effective outbreak
  /// detection in networks"); stale gains only loosen it. Items that no longer fit beside S count too.
  void online_bound() {
    if (!complete_) return;
    const double begin = control_.seconds();
    w_.knapsack.clear();
    for (Item item : w_.unpicked) w_.knapsack.push(item, w_.gain[index(item)]);
    lower_bound_to(value_ + w_.knapsack.solve());
    bound_seconds_ += control_.seconds() - begin;
  }

  void online_bound_at_start() {
    if (!complete_) return;
    w_.knapsack.clear();
    for (std::size_t i = 0; i < problem_.size(); ++i) {
      if (problem_.eligible()[i]) w_.knapsack.push(static_cast<Item>(i), w_.first_gain[i]);
    }
    lower_bound_to(w_.values.front() + w_.knapsack.solve());
  }

  void lower_bound_to(double value) {
    const double slack = problem_.gain_slack() * static_cast<double>(problem_.size() + 1);
    bound_.lower_to(value + slack, BoundMethod::online);
  }

  void certify(Packing& out) {
    const double begin = control_.seconds();
    recount(problem_, out);
    if (certificate_ == CertificateLevel::tight && control_.reason() == StopReason::none) {
      bound_.lower_to(concave_bound(problem_, out.selection, control_), BoundMethod::concave);
    }
    bound_.lower_to(total_bound(problem_), BoundMethod::total);
    // Where nothing can be added the answer is the optimum itself; elsewhere a bound below a value that was reached
    // could only come from rounding.
    if ((complete_ && !any_eligible_) || bound_.value < out.value) bound_.value = out.value;
    out.bound = bound_;
    out.certificate_seconds = bound_seconds_ + (control_.seconds() - begin);
  }

  const PackingProblem& problem_;
  const PackingView& view_;
  const GreedyOptions options_;
  const CertificateLevel certificate_;
  Control& control_;
  Workspace& w_;

  double value_ = 0;
  std::size_t start_size_ = 0;  // of the set: what is pinned, and the guess
  double cheapest_ = 1;         // cost in the heap
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

}  // namespace isinglass
