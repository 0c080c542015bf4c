// Requirement-aware selection: at most K items that maximise gains, pair terms and the weights of the terms they cover.
//
// For a fixed selection the auxiliary variables of the published QUBO are known in closed form, so the search is over
// items alone: F(S) = sum_{i in S} linear_i + sum_{i<k in S} pairs_ik + sum of the weights of terms that S covers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "isinglass/control.hpp"

namespace isinglass {

/// The caller's arrays. Owns nothing; valid while they live.
struct EvidenceView {
  std::size_t n = 0, terms = 0;
  std::span<const double> linear;        // (n,)
  const double* pairs = nullptr;         // (n, n) symmetric, zero diagonal
  const std::uint8_t* covers = nullptr;  // (terms, n), 0 or 1
  std::span<const double> term_weights;  // (terms,), none negative
  std::size_t max_items = 0;             // at most n
  std::span<const std::int64_t> costs;   // (n,), positive, or empty: no budget
  std::int64_t budget = 0;
};

/// The 64-bit integer image that all search runs on: sums are exact in any order, and ties are ties everywhere.
///
/// Coefficients are multiples of a power of two so small that most doubles are held exactly; where one is not,
/// `max_error` bounds how far any selection's integer value is from its real one (about the rounding of a double sum).
class EvidenceProblem {
 public:
  explicit EvidenceProblem(const EvidenceView& view);
  EvidenceProblem(const EvidenceProblem&) = delete;
  EvidenceProblem& operator=(const EvidenceProblem&) = delete;

  const EvidenceView& view() const { return view_; }
  std::size_t size() const { return view_.n; }
  std::size_t stride() const { return stride_; }  // entries of a row: n rounded up to whole vectors
  double granule() const { return granule_; }
  double max_error() const { return max_error_; }

  const std::int64_t* linear() const { return linear_.data(); }
  const std::int64_t* pairs(std::size_t i) const { return pairs_.data() + i * stride_; }
  /// Weight of the term where it is covered, else 0.
  const std::int64_t* term_row(std::size_t term) const { return term_rows_.data() + term * stride_; }
  std::int64_t term_weight(std::size_t term) const { return term_weights_[term]; }
  std::span<const std::int32_t> terms_of(std::size_t i) const {
    return {term_of_.data() + term_start_[i], static_cast<std::size_t>(term_start_[i + 1] - term_start_[i])};
  }
  const std::int32_t* term_start() const { return term_start_.data(); }
  const std::int32_t* term_list() const { return term_of_.data(); }
  const std::int64_t* term_weights() const { return term_weights_.data(); }
  const std::int64_t* term_rows() const { return term_rows_.data(); }
  const std::int64_t* all_pairs() const { return pairs_.data(); }
  /// Costs padded with the largest integer, or nullptr without a budget.
  const std::int64_t* costs() const { return costs_.empty() ? nullptr : costs_.data(); }

  /// F from the caller's doubles, in a fixed order.
  double evaluate(std::span<const std::int32_t> ascending) const;
  std::int64_t integer_value(std::span<const std::int32_t> items) const;
  bool feasible(std::span<const std::int32_t> items) const;

 private:
  EvidenceView view_;
  std::size_t stride_;
  double granule_ = 1, max_error_ = 0;
  std::vector<std::int64_t> linear_, pairs_, term_rows_, term_weights_, costs_;
  std::vector<std::int32_t> term_start_, term_of_;
};

/// Tabu search over selections: from the best of all additions, removals and exchanges to the next.
struct SwapOptions {
  // Reads; the first begins empty, the others from random selections. 0: until two or more, by size, have come to the
  // same best value, and more where others did not.
  std::size_t num_reads = 0;
  std::uint32_t patience = 0;  // a read ends after so many moves without a new best of its own; 0: ten
  std::uint64_t seed = 0;
};

/// The options of a search, settled for one problem.
struct SwapPlan {
  std::size_t num_reads;  // at most
  // So many reads of one best value may end the search, and more where others did not come to it; 0: all are made.
  std::size_t agreement;
  std::uint32_t patience;
  std::uint32_t add_tenure, drop_tenure, tenure_spread;

  bool agreed(std::size_t reached, std::size_t failed) const {
    return agreement > 0 && reached >= agreement && (reached - agreement) * 4 >= failed;
  }
};
SwapPlan swap_plan(const EvidenceProblem& problem, const SwapOptions& options);

struct EvidenceAnswer {
  std::vector<std::int32_t> selection;  // ascending
  double value = 0;
  double upper_bound = 0;  // of every feasible selection; meaningful when `bounded`
  bool bounded = false;
  bool proved = false;
  std::size_t reads = 0;
  std::uint32_t patience = 0;
  std::uint64_t moves = 0, nodes = 0, dual_steps = 0, work = 0;
  StopReason stopped = StopReason::none;
  double search_seconds = 0, proof_seconds = 0;
};

EvidenceAnswer swap_search(const EvidenceProblem& problem, const SwapOptions& options, Control& control);

/// Branch and bound from a swap start. The bound is a Lagrangian dual: pair terms are split between their two items,
/// term weights between their coverers, and the multipliers are improved at every node.
struct ProofOptions {
  SwapOptions start;
  std::uint64_t node_limit = 0;  // 0: none
  std::uint64_t work_limit = 0;  // entries of split pair terms to look at, about ten nanoseconds each; 0: none
};

EvidenceAnswer exact_search(const EvidenceProblem& problem, const ProofOptions& options, Control& control);

/// An upper bound on F over all feasible selections, by at most `steps` steps on the dual; `target`, the value of some
/// selection, sets their length.
double dual_bound(const EvidenceProblem& problem, double target, std::size_t steps, Control& control);

}  // namespace isinglass
