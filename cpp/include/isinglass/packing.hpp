// The packing problem: maximise a weighted sum of monotone submodular terms under a hard budget.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "isinglass/aligned.hpp"
#include "isinglass/control.hpp"
#include "isinglass/embeddings.hpp"
#include "isinglass/expansion.hpp"

namespace isinglass {

struct PackingKernels;

using Item = std::int32_t;

/// Compressed sparse rows over the caller's arrays.
template <class Value>
struct CsrView {
  std::span<const std::int64_t> row_start;  // (n + 1,)
  std::span<const std::int32_t> column;     // (nonzeros,)
  std::span<const Value> value;             // (nonzeros,), or empty: all ones
};

/// The first entry of a square matrix, columns ascending in every row, whose mirror image is absent or differs from it
/// by more than `tolerance`; -1 where there is none.
std::int64_t first_unmirrored(const CsrView<float>& matrix, double tolerance);

/// A term that the caller wrote: what adding an item to a set is worth, in its own scale.
struct UserTerm {
  using Gain = double (*)(std::int64_t item, const std::int64_t* selected, std::int64_t size, const void* data);

  Gain gain = nullptr;
  const void* data = nullptr;
  double weight = 1;
  // By the caller's word.
  bool submodular = false;
  bool monotone = false;

  /// Throws std::domain_error where the caller's function gives no finite number.
  double operator()(std::int64_t item, std::span<const std::int64_t> selected) const;
};

/// The caller's arrays. Owns nothing; valid while they live. An absent term has an empty array.
struct PackingView {
  std::size_t n = 0;

  // Costs that share a granule come as exact integers; else the doubles decide by exactly rounded sums.
  std::span<const double> costs;                // (n,), the caller's unit
  double budget = 0;                            // the caller's unit
  std::span<const std::int64_t> integer_costs;  // (n,), or empty
  std::int64_t integer_budget = 0;

  std::span<const double> relevance;       // (n,)
  const float* similarity = nullptr;       // (n, targets) symmetric, rows contiguous
  CsrView<float> sparse_similarity;        // the same, sparse
  const Embeddings* embeddings = nullptr;  // the same, computed when looked at
  std::size_t targets = 0;                 // columns of the similarity: what is to be represented; 0: all items
  CsrView<double> coverage;                // (n, terms), 0/1
  std::span<const double> term_weights;    // (terms,)
  std::span<const std::int32_t> groups;    // (n,), 0 .. num_groups - 1
  std::size_t num_groups = 0;

  double relevance_weight = 0, coverage_weight = 0, representation_weight = 0, diversity_weight = 0,
         facility_location_weight = 0;
  double saturation = 0.3;
  bool unit_normalisation = false;  // diversity over its own maximum instead of P1's sqrt(sum of relevance)

  std::span<const std::uint8_t> allowed;  // (n,), or empty: all
  std::span<const Item> pinned;           // always in the answer, in this order
  std::span<const UserTerm> terms;
  std::size_t max_items = 0;  // 0 picks nothing; n or more: no cap

  std::span<const Item> source;  // (n,), rows of the similarity and the coverage that items have; empty: their own

  bool has_similarity() const {
    return similarity != nullptr || embeddings != nullptr || !sparse_similarity.row_start.empty();
  }
  /// Whether gains only fall as the set grows: what laziness needs.
  bool is_submodular() const {
    return std::all_of(terms.begin(), terms.end(), [](const UserTerm& term) { return term.submodular; });
  }
  /// Whether nothing that is added ever takes value away, besides: what every bound needs.
  bool is_bounded() const {
    return is_submodular() &&
           std::all_of(terms.begin(), terms.end(), [](const UserTerm& term) { return term.monotone; });
  }
  std::size_t num_targets() const { return targets == 0 ? n : targets; }
  std::size_t row_of(std::size_t item) const { return source.empty() ? item : static_cast<std::size_t>(source[item]); }
};

/// A view with what every solve needs and no answer changes: normalisers, saturation caps, who may be picked.
class PackingProblem {
 public:
  /// The sums of all rows take a while: on so many threads, watched by `control`. Where that stops them, representation
  /// is off: values are those of the other terms, lower bounds of what they would be.
  explicit PackingProblem(const PackingView& view, int threads = 1, Control* control = nullptr);
  /// What some items of a problem make, renumbered: the same objective over fewer candidates. `items` ascending, with
  /// all that is pinned. `whole` must outlive it.
  PackingProblem(const PackingProblem& whole, std::span<const Item> items);
  PackingProblem(const PackingProblem&) = delete;
  PackingProblem& operator=(const PackingProblem&) = delete;

  const PackingView& view() const { return view_; }
  std::size_t size() const { return view_.n; }

  // Weight / normaliser of each term; 0 when the term is off or can never be positive.
  double relevance_scale() const { return relevance_scale_; }
  double coverage_scale() const { return coverage_scale_; }
  double representation_scale() const { return representation_scale_; }
  double diversity_scale() const { return diversity_scale_; }
  double facility_scale() const { return facility_scale_; }
  /// Whether the sums that representation needs were stopped.
  bool unfinished() const { return unfinished_; }

  /// Row `item` of the dense similarity. Rows of small problems are copied and padded with zeros to a multiple of 16,
  /// so that kernels have no short last block; `row_length` counts the padding.
  const float* rows() const { return rows_; }
  const float* row(std::size_t item) const { return rows_ + view_.row_of(item) * row_length_; }
  std::size_t row_length() const { return row_length_; }

  std::span<const double> cap() const { return cap_; }  // (targets,), padded with zeros to a multiple of 16
  // Unless the similarity is sparse: sums of its rows (n,), and largest entries of its columns, padded like cap.
  std::span<const double> degree() const { return degree_; }
  std::span<const double> peak() const { return peak_; }
  /// Blocks of 16 targets, one of which has a cap below its peak: 1, else 0.
  std::span<const std::uint8_t> tight() const { return tight_; }

  /// Coverage as bit masks, when there are at most 64 terms of weight 1: then gains are population counts.
  bool bitmask_coverage() const { return !coverage_mask_.empty(); }
  std::span<const std::uint64_t> coverage_mask() const { return coverage_mask_; }

  /// May be picked: allowed, not pinned, and within the budget and the cap beside what is pinned.
  std::span<const std::uint8_t> eligible() const { return eligible_; }
  std::span<const Item> eligible_items() const { return eligible_items_; }  // the same, ascending

  /// Cost of each item as the budget counts it (integers where they are exact), padded with ones to a multiple of 16.
  std::span<const double> load() const { return load_; }
  double cheapest() const { return cheapest_; }  // least of the caller's costs

  /// F of all that may be picked, with the pinned items: never below the optimum.
  double total_bound() const { return total_bound_; }

  /// At least the largest possible rounding error of one gain, with what is summed in it.
  double gain_slack() const { return gain_slack_; }

 private:
  double represent(int threads, Control& control);
  void sum_dense_rows(int threads, Control& control);

  /// Arrays of a problem that is part of another one.
  struct Part {
    std::vector<double> costs, relevance;
    std::vector<std::int64_t> integer_costs;
    std::vector<std::int32_t> groups;
    std::vector<Item> pinned, source;
  };
  void finish();

  PackingView view_;
  Part part_;
  bool unfinished_ = false;
  double relevance_scale_ = 0, coverage_scale_ = 0, representation_scale_ = 0, diversity_scale_ = 0,
         facility_scale_ = 0;
  AlignedVector<float> padded_rows_;
  const float* rows_ = nullptr;
  std::size_t row_length_ = 0;
  AlignedVector<double> own_cap_, own_peak_, load_;
  std::vector<std::uint8_t> own_tight_;
  std::span<const double> cap_, peak_;  // those, or of the whole
  std::span<const std::uint8_t> tight_;
  std::vector<double> degree_;
  std::vector<std::uint64_t> coverage_mask_;
  std::vector<std::uint8_t> eligible_;
  std::vector<Item> eligible_items_;
  double cheapest_ = 1;
  double total_bound_ = 0;
  double user_total_ = 0;  // of the user's terms: what all items are worth alone
  double gain_slack_ = 0;
};

/// Running state of a set: its value and, for any item, what it would add. The one gain function of every algorithm.
class PackingState {
 public:
  void reset(const PackingProblem& problem);  // S = {}; keeps its memory
  /// gains[k] = F(S + items[k]) - F(S); many at a time are faster, and give the same bits.
  void gains(std::span<const Item> items, double* gains) const;
  double gain(Item item) const {
    double value;
    gains({&item, 1}, &value);
    return value;
  }
  void add(Item item);  // S <- S + item
  /// Multiply-adds, about, that a gain takes of the similarity.
  std::size_t work() const;
  /// How many gains to ask for at a time.
  std::size_t gains_at_once() const;

 private:
  double coverage_gain(std::size_t item) const;
  void represented(std::span<const Item> items, double* gains) const;
  double represented_sparsely(std::size_t item) const;
  void list_tight_blocks();
  void excess_from_embeddings(std::span<const Item> items, double* out) const;
  void excess_on_device(std::span<const Item> items, std::span<const std::int32_t> blocks,
                        std::span<const double> floor, double* out) const;
  void represent_later(std::size_t item);
  void catch_up(std::size_t block);
  double most_taken_since();
  void nearer(std::span<const Item> items, double* gains) const;
  double nearer_sparsely(std::size_t item) const;

  const PackingProblem* problem_ = nullptr;
  const PackingKernels* kernels_ = nullptr;
  AlignedVector<double> headroom_;    // cap_i - representation of i so far, padded like cap
  std::vector<std::uint8_t> tight_;   // per block of 16 targets: whether some row may exceed the headroom there
  std::vector<std::int32_t> blocks_;  // those blocks
  // From embeddings a block is brought up to date when it may have become tight: until then it lacks what the last
  // picks take from it, which is at most 1 each, and see `most_taken_since`.
  std::vector<std::size_t> picks_;
  std::vector<float> units_;            // their unit rows
  std::vector<std::uint32_t> applied_;  // per block: picks that its headroom knows of
  std::vector<double> margin_;          // per block: least headroom_i - peak_i then
  // Of the picks from number `gram_from_` on: sum of |cosine| of each with all of these.
  std::size_t gram_from_ = 0;
  std::vector<double> gram_;
  AlignedVector<float> nearest_;       // largest similarity of i to the set
  bool any_near_ = false;              // the set is not empty
  std::vector<std::uint8_t> covered_;  // per term
  std::uint64_t covered_mask_ = 0;
  std::vector<double> group_mass_, group_root_;  // and its root
  std::vector<std::int64_t> selected_;           // where the caller's terms ask for it
};

/// What a set has spent, exactly.
class Purse {
 public:
  void reset(const PackingProblem& problem) {
    view_ = &problem.view();
    integer_left_ = view_->integer_budget;
    spent_.clear();
  }
  bool fits(Item item) const {
    return view_->integer_costs.empty() ? fits_exactly(item)
                                        : view_->integer_costs[static_cast<std::size_t>(item)] <= integer_left_;
  }
  void spend(Item item);
  double left() const { return static_cast<double>(integer_left_); }  // where costs are integers

 private:
  bool fits_exactly(Item item) const;

  const PackingView* view_ = nullptr;
  std::int64_t integer_left_ = 0;
  Expansion spent_;  // where costs are no integers
};

/// F(selection) from the caller's arrays, by the definition of each term and without any running state: the check of
/// what the algorithms report.
double evaluate(const PackingProblem& problem, std::span<const Item> selection);
/// The part of the caller's terms in it: their gains, items ascending.
double user_value(const PackingView& view, std::span<const Item> selection);

/// Exactly rounded cost of a selection, and whether it is within the budget.
struct Spending {
  double cost = 0;
  bool within_budget = true;
};
Spending spending(const PackingView& view, std::span<const Item> selection);

}  // namespace isinglass
