// Upper bounds on the optimum of a packing problem.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/packing.hpp"

namespace isinglass {

enum class CertificateLevel { fast, tight };

enum class BoundMethod {
  online,   // F(S) + the best fractional knapsack of gains at S, over the prefixes S of the run
  concave,  // linear bounds of the terms' concave functions, by conditional gradient
  total,    // the value of everything that may be picked
  exact,    // no set is better
};

/// Infinite where nothing is proved: beside terms of the caller that are not submodular and monotone.
struct Bound {
  double value = 0;
  BoundMethod method = BoundMethod::total;

  void lower_to(double candidate, BoundMethod by) {
    if (candidate < value) {
      value = candidate;
      method = by;
    }
  }
};

/// The largest sum of gains that fits: max sum g_j y_j with 0 <= y <= 1 under the budget beside the pinned items, or
/// under the cap on the number of items, whichever is less. Fractional, so an upper bound of every selection's sum.
/// O(n) by weighted selection.
class FractionalKnapsack {
 public:
  void reset(const PackingProblem& problem) { reset(problem, problem.view().pinned); }
  /// What is left beside `fixed`.
  void reset(const PackingProblem& problem, std::span<const Item> fixed);

  struct Entry {
    double density;
    double gain;
    double cost;
    Item item;
  };

  void clear() { entries_.clear(); }
  /// Only items that may be picked and would add something need to be pushed.
  void push(Item item, double gain);
  /// The bound; with `vertex`, also the items (and the fraction of the last) that reach it.
  double solve(std::vector<std::pair<Item, double>>* vertex = nullptr);
  /// What an item's gain is worth beyond the room that it takes, at the price of the last `solve`: taking an item that
  /// the bound leaves, or leaving one that it takes, lowers the bound by at least as much.
  double worth(Item item, double gain) const { return gain - price_ * (by_count_ ? 1.0 : cost(item)); }

 private:
  double cost(Item item) const;
  double fill(double limit, bool by_count, std::vector<std::pair<Item, double>>* vertex);

  const PackingProblem* problem_ = nullptr;
  double budget_left_ = 0;
  std::size_t items_left_ = 0;
  double price_ = 0;  // of a unit of room
  bool by_count_ = false;
  std::vector<Entry> entries_;
};

/// The same sum bounded by its dual: for every price p >= 0 of a unit of the budget, `p room + sum_j max(0, g_j - p
/// w_j)` is a bound, and at the best p it is the sum. A few passes over all gains, none of which branches on them:
/// several times faster than a selection where gains are new to the branch predictor, as in a batch.
class PricedKnapsack {
 public:
  void reset(const PackingProblem& problem);
  /// `gain`: of every item, 0 for those not to be counted, padded with zeros to a multiple of 16. Never below the sum
  /// (but for rounding), and within 1e-4 of it, unless the sum is at least `reached`: nobody asks how much more.
  double solve(const double* gain, double reached = std::numeric_limits<double>::infinity());

 private:
  const PackingProblem* problem_ = nullptr;
  double room_ = 0;
  double price_ = 0;  // of the last solve, where the next one begins
};

/// The concave bound: each term is a concave function of sums over S, and a concave function lies below its tangents.
/// For any multipliers that gives a linear function above F, whose best knapsack bounds the optimum; conditional
/// gradient (Frank, Wolfe 1956) on the smoothed relaxation finds good multipliers.
double concave_bound(const PackingProblem& problem, std::span<const Item> start, Control& control);

/// The best bound at any set, from any source: online with exact gains at {}, at `selection` and, where that is cheap,
/// at its prefixes of 4, 8, 16 ... items; with `tight` also the concave one started there. No bound depends on the
/// threads.
Bound bound_at(const PackingProblem& problem, std::span<const Item> selection, CertificateLevel level, Control& control,
               int threads = 1);

}  // namespace isinglass
