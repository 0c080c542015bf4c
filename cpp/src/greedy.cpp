#include "isinglass/greedy.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace isinglass {
namespace {

/// A gain that was exact for some earlier prefix: an upper bound of today's, since gains only fall.
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

class Run {
 public:
  Run(const PackingProblem& problem, const GreedyOptions& options, CertificateLevel certificate, Control& control)
      : problem_(problem),
        view_(problem.view()),
        options_(options),
        certificate_(certificate),
        control_(control),
        knapsack_(problem) {}

  Packing solve() {
    Packing out;
    const std::size_t n = problem_.size();
    gain_.assign(n, 0.0);
    fresh_at_.assign(n, kNever);
    place_.assign(n, 0);
    bound_.value = std::numeric_limits<double>::infinity();
    state_.reset(problem_);
    purse_.reset(problem_);
    for (Item item : view_.pinned) take(item, state_.gain(item));
    const double start_value = value_;

    for (std::size_t i = 0; i < n; ++i) {
      if (!problem_.eligible()[i]) continue;
      const auto item = static_cast<Item>(i);
      refresh(item);
      open(item);
      // A first pass over thousands of rows takes long enough to be stopped in.
      if (i % 256 == 255 && control_.stop()) break;
    }
    // Gains of items that were never looked at bound nothing.
    complete_ = control_.reason() == StopReason::none;
    out.nothing_fits = complete_ && open_.empty();
    online_bound();

    best_value_ = value_;
    best_size_ = picked_.size();
    Item single = kNone;
    double single_gain = 0;
    if (!options_.plus_max) {
      for (Item item : open_) {
        if (gain_[index(item)] > single_gain || (gain_[index(item)] == single_gain && item < single)) {
          single = item;
          single_gain = gain_[index(item)];
        }
      }
    } else {
      try_largest();
    }

    build_heap();
    while (picked_.size() < view_.max_items && !control_.stop()) {
      const Item item = next();
      if (item == kNone) break;
      pick(item);
      if (options_.plus_max) try_largest();
      if (wants_bound(picked_.size() - view_.pinned.size())) online_bound();
    }
    online_bound();

    if (!options_.plus_max) {
      if (single != kNone && start_value + single_gain > value_) restart_with(single, 0);
    } else if (best_item_ != kNone && best_value_ > value_) {
      restart_with(best_item_, best_size_ - view_.pinned.size());
      fill_up();
    }

    out.selection = std::move(picked_);
    out.gains = std::move(picked_gains_);
    out.cost = spending(view_, out.selection).cost;
    out.search_seconds = control_.seconds() - bound_seconds_;
    finish(out);
    out.gain_evaluations = evaluations_;
    out.stopped = control_.reason();
    return out;
  }

 private:
  static constexpr Item kNone = -1;
  static constexpr int kDropsBeforeSweep = 8;
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  static std::size_t index(Item item) { return static_cast<std::size_t>(item); }
  double density(Item item) const { return gain_[index(item)] / view_.costs[index(item)]; }
  bool fresh(Item item) const { return fresh_at_[index(item)] == picked_.size(); }
  bool has_room() const { return picked_.size() < view_.max_items; }

  void refresh(Item item) {
    gain_[index(item)] = state_.gain(item);
    fresh_at_[index(item)] = picked_.size();
    ++evaluations_;
  }

  void take(Item item, double gain) {
    state_.add(item);
    purse_.spend(item);
    value_ += gain;
    picked_.push_back(item);
    picked_gains_.push_back(gain);
  }

  void pick(Item item) {
    take(item, gain_[index(item)]);
    close(item);
  }

  void open(Item item) {
    place_[index(item)] = open_.size();
    open_.push_back(item);
  }
  void close(Item item) {
    const std::size_t hole = place_[index(item)];
    open_[hole] = open_.back();
    place_[index(open_[hole])] = hole;
    open_.pop_back();
  }
  /// What is left never grows along a run, so an item that does not fit now is out of it.
  void drop(Item item) {
    close(item);
    dropped_.push_back(item);
  }

  void build_heap() {
    heap_.clear();
    cheapest_ = std::numeric_limits<double>::infinity();
    for (Item item : open_) {
      heap_.push_back({density(item), item});
      cheapest_ = std::min(cheapest_, view_.costs[index(item)]);
    }
    std::make_heap(heap_.begin(), heap_.end(), Later{});
  }

  void sweep_heap() {
    const auto gone = std::partition(heap_.begin(), heap_.end(), [&](const Stale& s) { return purse_.fits(s.item); });
    for (auto it = gone; it != heap_.end(); ++it) drop(it->item);
    heap_.erase(gone, heap_.end());
    std::make_heap(heap_.begin(), heap_.end(), Later{});
  }

  /// The item of largest density among those that fit and add something, as plain greedy would choose it.
  Item next() {
    // Rounding may let a fresh gain exceed a stale one by twice its error. So the best fresh item is final only once
    // every stale density, widened by that much, lies below it.
    const double slack = 2 * problem_.gain_slack() / cheapest_;
    Item best = kNone;
    double best_density = 0;
    int drops = 0;
    refreshed_.clear();
    while (!heap_.empty() && heap_.front().density + slack >= best_density) {
      const Stale top = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), Later{});
      heap_.pop_back();
      if (!purse_.fits(top.item)) {
        drop(top.item);
        // Near the end most of the heap no longer fits: one sweep is cheaper than a pop for each.
        if (++drops == kDropsBeforeSweep) sweep_heap();
        continue;
      }
      if (!fresh(top.item)) refresh(top.item);
      const double now = density(top.item);
      refreshed_.push_back({now, top.item});
      if (gain_[index(top.item)] > 0 &&
          (best == kNone || now > best_density || (now == best_density && top.item < best))) {
        best = top.item;
        best_density = now;
      }
      if (best == kNone && top.density <= 0 && now <= 0) break;  // nothing below can add anything
    }
    for (const Stale& entry : refreshed_) {
      if (entry.item == best) continue;
      heap_.push_back(entry);
      std::push_heap(heap_.begin(), heap_.end(), Later{});
    }
    return best;
  }

  /// Greedy+Max: the single item of largest gain that fits beside the current prefix. Only an item whose stale gain
  /// could lift the best value is looked at again.
  void try_largest() {
    if (!has_room()) return;
    const double slack = 2 * problem_.gain_slack();
    for (Item item : open_) {
      if (value_ + gain_[index(item)] + slack <= best_value_ || !purse_.fits(item)) continue;
      if (!fresh(item)) refresh(item);
      const double reached = value_ + gain_[index(item)];
      if (reached > best_value_ || (reached == best_value_ && best_size_ == picked_.size() && item < best_item_)) {
        best_value_ = reached;
        best_size_ = picked_.size();
        best_item_ = item;
      }
    }
  }

  /// Goes back to the prefix of `size` greedy picks (beside the pinned items) and adds `item`.
  void restart_with(Item item, std::size_t size) {
    const std::vector<Item> prefix(picked_.begin(),
                                   picked_.begin() + static_cast<std::ptrdiff_t>(view_.pinned.size() + size));
    const std::vector<double> gains(picked_gains_.begin(),
                                    picked_gains_.begin() + static_cast<std::ptrdiff_t>(prefix.size()));
    picked_.clear();
    picked_gains_.clear();
    value_ = 0;
    state_.reset(problem_);
    purse_.reset(problem_);
    for (std::size_t k = 0; k < prefix.size(); ++k) take(prefix[k], gains[k]);
    take(item, state_.gain(item));
  }

  /// Spends what a prefix and its item have left, by density: F is monotone, so nothing is lost.
  void fill_up() {
    std::vector<std::uint8_t> in_set(problem_.size(), 0);
    for (Item item : picked_) in_set[index(item)] = 1;
    open_.clear();
    for (std::size_t i = 0; i < problem_.size(); ++i) {
      const auto item = static_cast<Item>(i);
      if (problem_.eligible()[i] && !in_set[i] && purse_.fits(item)) open(item);
    }
    if (open_.empty() || !has_room()) return;
    for (Item item : open_) refresh(item);
    build_heap();
    while (has_room() && !control_.stop()) {
      const Item item = next();
      if (item == kNone) break;
      pick(item);
    }
  }

  /// Every early prefix, then each doubling: late prefixes add little and each costs O(n).
  static bool wants_bound(std::size_t picks) { return picks <= 8 || (picks & (picks - 1)) == 0; }

  /// OPT <= F(S) + the best fractional knapsack of the gains at S (Leskovec et al. 2007, "Cost-effective outbreak
  /// detection in networks"); stale gains only loosen it. Items that no longer fit beside S still count.
  void online_bound() {
    if (!complete_) return;
    const double begin = control_.seconds();
    knapsack_.clear();
    for (Item item : open_) knapsack_.push(item, gain_[index(item)]);
    for (Item item : dropped_) knapsack_.push(item, gain_[index(item)]);
    const double slack = problem_.gain_slack() * static_cast<double>(problem_.size() + 1);
    bound_.lower_to(value_ + knapsack_.solve() + slack, BoundMethod::online);
    bound_seconds_ += control_.seconds() - begin;
  }

  void finish(Packing& out) {
    const double begin = control_.seconds();
    out.value = evaluate(problem_, out.selection);
    if (certificate_ == CertificateLevel::tight && control_.reason() == StopReason::none) {
      bound_.lower_to(concave_bound(problem_, out.selection, control_), BoundMethod::concave);
    }
    bound_.lower_to(total_bound(problem_), BoundMethod::total);
    // Where nothing can be added the answer is the optimum itself; elsewhere a bound below a value that was reached
    // could only come from rounding.
    if (out.nothing_fits || bound_.value < out.value) bound_.value = out.value;
    out.bound = bound_;
    out.certificate_seconds = bound_seconds_ + (control_.seconds() - begin);
  }

  const PackingProblem& problem_;
  const PackingView& view_;
  const GreedyOptions options_;
  const CertificateLevel certificate_;
  Control& control_;

  PackingState state_;
  Purse purse_;
  std::vector<double> gain_;           // newest known gain of each item
  std::vector<std::size_t> fresh_at_;  // size of the set for which it is exact
  std::vector<Item> open_, dropped_;   // may still be picked; no longer fit
  std::vector<std::size_t> place_;     // of each open item in open_
  std::vector<Stale> heap_, refreshed_;
  std::vector<Item> picked_;
  std::vector<double> picked_gains_;
  double value_ = 0;
  double cheapest_ = 1;
  double best_value_ = 0;  // Greedy+Max: the best prefix and item so far
  std::size_t best_size_ = 0;
  Item best_item_ = kNone;
  FractionalKnapsack knapsack_;
  Bound bound_;
  double bound_seconds_ = 0;
  std::size_t evaluations_ = 0;
  bool complete_ = false;  // every eligible item has a gain
};

}  // namespace

Packing greedy(const PackingProblem& problem, const GreedyOptions& options, CertificateLevel certificate,
               Control& control) {
  return Run(problem, options, certificate, control).solve();
}

}  // namespace isinglass
