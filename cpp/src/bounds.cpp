#include "isinglass/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "isinglass/packing_kernels.hpp"
#include "isinglass/parallel.hpp"
#include "relaxation.hpp"

namespace isinglass {

namespace {

/// What `fixed` leaves of the budget, in the unit of `load`.
double room_beside(const PackingProblem& problem, std::span<const Item> fixed) {
  const PackingView& view = problem.view();
  if (view.integer_costs.empty()) {
    // One step up, so that rounding here cannot take budget from the bound.
    return std::nextafter(view.budget - spending(view, fixed).cost, std::numeric_limits<double>::infinity());
  }
  std::int64_t left = view.integer_budget;
  for (Item item : fixed) left -= view.integer_costs[static_cast<std::size_t>(item)];
  return static_cast<double>(left);
}

}  // namespace

void FractionalKnapsack::reset(const PackingProblem& problem, std::span<const Item> fixed) {
  problem_ = &problem;
  entries_.clear();
  const PackingView& view = problem.view();
  budget_left_ = room_beside(problem, fixed);
  items_left_ = view.max_items - std::min(view.max_items, fixed.size());
}

double FractionalKnapsack::cost(Item item) const { return problem_->load()[static_cast<std::size_t>(item)]; }

void FractionalKnapsack::push(Item item, double gain) {
  if (gain <= 0) return;
  const double weight = cost(item);
  entries_.push_back({gain / weight, gain, weight, item});
}

double FractionalKnapsack::solve(std::vector<std::pair<Item, double>>* vertex) {
  const double by_budget = fill(budget_left_, false, vertex);
  by_count_ = false;
  if (items_left_ >= entries_.size()) return by_budget;
  const double budget_price = price_;
  std::vector<std::pair<Item, double>> other;
  const double by_count = fill(static_cast<double>(items_left_), true, vertex != nullptr ? &other : nullptr);
  if (by_count < by_budget) {
    by_count_ = true;
    if (vertex != nullptr) vertex->swap(other);
  } else {
    price_ = budget_price;
  }
  return std::min(by_budget, by_count);
}

double FractionalKnapsack::fill(double limit, bool by_count, std::vector<std::pair<Item, double>>* vertex) {
  const auto key = [by_count](const Entry& e) { return by_count ? e.gain : e.density; };
  const auto weight = [by_count](const Entry& e) { return by_count ? 1.0 : e.cost; };
  if (vertex != nullptr) vertex->clear();
  price_ = 0;
  double total = 0;
  const auto take = [&](const Entry& e, double share) {
    total += share * e.gain;
    limit -= share * weight(e);
    if (vertex != nullptr) vertex->emplace_back(e.item, share);
  };

  auto low = entries_.begin(), high = entries_.end();
  constexpr std::ptrdiff_t kSortBelow = 12;
  while (high - low > kSortBelow) {
    const double a = key(*low), b = key(low[(high - low) / 2]), c = key(*(high - 1));
    const double pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));
    const auto above = std::partition(low, high, [&](const Entry& e) { return key(e) > pivot; });
    double needed = 0;
    for (auto it = low; it != above; ++it) needed += weight(*it);
    if (needed > limit) {
      high = above;
      continue;
    }
    for (auto it = low; it != above; ++it) take(*it, 1);
    const auto below = std::partition(above, high, [&](const Entry& e) { return key(e) == pivot; });
    for (auto it = above; it != below; ++it) {
      if (weight(*it) > limit) {
        price_ = key(*it);
        take(*it, std::max(0.0, limit / weight(*it)));
        return total;
      }
      take(*it, 1);
    }
    low = below;
  }
  std::sort(low, high,
            [&](const Entry& x, const Entry& y) { return key(x) > key(y) || (key(x) == key(y) && x.item < y.item); });
  for (auto it = low; it != high; ++it) {
    if (weight(*it) > limit) {
      price_ = key(*it);
      take(*it, std::max(0.0, limit / weight(*it)));
      break;
    }
    take(*it, 1);
  }
  return total;
}

void PricedKnapsack::reset(const PackingProblem& problem) {
  problem_ = &problem;
  room_ = room_beside(problem, problem.view().pinned);
  price_ = 0;
}

double PricedKnapsack::solve(const double* gain, double reached) {
  constexpr int kPasses = 12;
  constexpr double kClose = 1e-4;  // relative
  const std::span<const double> load = problem_->load();
  // The bound is convex in the price and linear between densities. Tangents on both sides of its least value meet below
  // it: their intersection is the next price, and says how far the best bound so far can be from the least.
  struct Line {
    double price, value, slope;
  };
  const auto at = [&](double price) {
    const Priced p = packing_kernels().priced(gain, load.data(), price, load.size());
    return Line{price, price * room_ + p.worth, room_ - p.load};
  };
  Line left = at(0);
  if (left.slope >= 0) {
    price_ = 0;
    return left.value;  // all fit
  }
  double best = left.value;
  // No price above the value of everything over the room is worth a look: there the bound exceeds that value.
  Line right{left.value / room_, left.value, room_};
  double price =
      price_ > 0 && price_ < right.price ? price_ : right.price * std::min(0.5, 2.5 * room_ / (room_ - left.slope));
  for (int pass = 0; pass < kPasses; ++pass) {
    const Line here = at(price);
    best = std::min(best, here.value);
    price_ = price;
    if (here.slope == 0) break;
    (here.slope < 0 ? left : right) = here;
    price =
        (right.value - left.value + left.slope * left.price - right.slope * right.price) / (left.slope - right.slope);
    if (!(price > left.price && price < right.price)) break;
    const double least = left.value + left.slope * (price - left.price);
    if (best - least <= kClose * best || least >= reached) break;
  }
  return best;
}

namespace {

/// OPT <= F(S) + the best fractional knapsack of the exact gains at S, for growing sets S.
class OnlineBound {
 public:
  OnlineBound(const PackingProblem& problem, int threads, Control& control)
      : problem_(problem), threads_(threads), control_(control), in_set_(problem.size(), 0) {
    state_.reset(problem);
    knapsack_.reset(problem);
  }

  void add(Item item) {
    state_.add(item);
    in_set_[static_cast<std::size_t>(item)] = 1;
    set_.push_back(item);
  }

  /// Multiply-adds, about, that a bound takes.
  std::size_t work() const { return problem_.size() * state_.work(); }

  /// Infinite once the control has stopped.
  double value() {
    constexpr std::size_t kSlice = 256;
    const std::size_t n = problem_.size();
    std::vector<double> gain(n, 0.0);
    parallel_for((n + kSlice - 1) / kSlice, threads_, control_, [&](std::size_t slice) {
      Item items[kSlice];
      double gains[kSlice];
      std::size_t count = 0;
      for (std::size_t i = slice * kSlice; i < std::min(n, (slice + 1) * kSlice); ++i) {
        if (problem_.eligible()[i] && !in_set_[i]) items[count++] = static_cast<Item>(i);
      }
      state_.gains({items, count}, gains);
      for (std::size_t k = 0; k < count; ++k) gain[static_cast<std::size_t>(items[k])] = gains[k];
    });
    if (control_.stop()) return std::numeric_limits<double>::infinity();
    knapsack_.clear();
    for (std::size_t i = 0; i < n; ++i) knapsack_.push(static_cast<Item>(i), gain[i]);
    const double slack = problem_.gain_slack() * static_cast<double>(n + 1);
    return evaluate(problem_, set_) + knapsack_.solve() + slack;
  }

 private:
  const PackingProblem& problem_;
  const int threads_;
  Control& control_;
  PackingState state_;
  FractionalKnapsack knapsack_;
  std::vector<std::uint8_t> in_set_;
  std::vector<Item> set_;
};

}  // namespace

Bound bound_at(const PackingProblem& problem, std::span<const Item> selection, CertificateLevel level, Control& control,
               int threads) {
  constexpr std::size_t kFirstPrefix = 4;
  constexpr std::size_t kCheap = std::size_t{1} << 32;  // multiply-adds: a tenth of a second
  Bound bound{problem.total_bound(), BoundMethod::total};
  const std::span<const Item> pinned = problem.view().pinned;
  const auto eligible = problem.eligible();
  if (std::find(eligible.begin(), eligible.end(), std::uint8_t{1}) == eligible.end()) {
    // The only solution is the optimum.
    return problem.unfinished() ? bound : Bound{evaluate(problem, pinned), BoundMethod::total};
  }
  if (!problem.view().is_bounded()) return {std::numeric_limits<double>::infinity(), BoundMethod::total};
  // S must hold what every solution holds: F(S + OPT) bounds F(OPT) with the pinned items counted once.
  std::vector<Item> with_pinned(pinned.begin(), pinned.end());
  std::vector<std::uint8_t> is_pinned(problem.size(), 0);
  for (Item item : pinned) is_pinned[static_cast<std::size_t>(item)] = 1;
  for (Item item : selection) {
    if (!is_pinned[static_cast<std::size_t>(item)]) with_pinned.push_back(item);
  }
  OnlineBound online(problem, threads, control);
  const auto lower = [&] { bound.lower_to(online.value(), BoundMethod::online); };
  for (Item item : pinned) online.add(item);
  lower();
  for (std::size_t k = pinned.size(); k < with_pinned.size() && !control.stop(); ++k) {
    online.add(with_pinned[k]);
    const std::size_t picks = k + 1 - pinned.size();
    const bool doubled = picks >= kFirstPrefix && (picks & (picks - 1)) == 0;
    if (k + 1 == with_pinned.size() || (doubled && online.work() <= kCheap)) lower();
  }
  if (level == CertificateLevel::tight && control.reason() == StopReason::none) {
    bound.lower_to(concave_bound(problem, with_pinned, control), BoundMethod::concave);
  }
  return bound;
}

double concave_bound(const PackingProblem& problem, std::span<const Item> start, Control& control) {
  constexpr int kSteps = 60;
  constexpr int kPatience = 4;        // steps without
  constexpr double kProgress = 5e-4;  // so much relative improvement
  std::vector<Item> open;
  for (std::size_t i = 0; i < problem.size(); ++i) {
    if (problem.eligible()[i]) open.push_back(static_cast<Item>(i));
  }
  const Scope scope{problem.view().pinned, open};
  Descent descent(problem, control);
  descent.linearise_user_terms(start);
  FractionalKnapsack knapsack;
  knapsack.reset(problem);
  Relaxation at(problem);
  for (Item item : start) at.add(item, 1);

  double best = std::numeric_limits<double>::infinity(), target = best;
  for (int step = 0, idle = 0; step < kSteps && idle < kPatience && !control.stop(); ++step) {
    best = std::min(best, descent.step(scope, knapsack, at, step));
    if (best <= target) {
      target = best * (1 - kProgress);
      idle = 0;
    } else {
      ++idle;
    }
  }
  return best + problem.gain_slack() * static_cast<double>(problem.size() + 1);
}

}  // namespace isinglass
