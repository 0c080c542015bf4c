// Rows of a packing problem and sums in the fixed order, for the files of cpp/src that need them.
#pragma once

#include <cstddef>
#include <span>

#include "isinglass/packing.hpp"
#include "isinglass/packing_kernels.hpp"

namespace isinglass {

inline constexpr std::size_t kLanes = 16;

inline std::size_t padded(std::size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// Sixteen fixed lanes and a binary tree, like the kernels, for the short or irregular sums outside them.
class LaneSum {
 public:
  void add(std::size_t index, double value) { lane_[index % kLanes] += value; }
  double total() {
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) lane_[l] += lane_[l + half];
    }
    return lane_[0];
  }

 private:
  double lane_[kLanes] = {};
};

inline double sum(std::span<const double> values) {
  LaneSum s;
  for (std::size_t i = 0; i < values.size(); ++i) s.add(i, values[i]);
  return s.total();
}

/// Row `item` of either similarity, visited as (column, value, position in the row).
template <class Visit>
void for_row(const PackingView& view, std::size_t item, Visit visit) {
  if (view.similarity != nullptr) {
    const float* row = view.similarity + item * view.n;
    for (std::size_t i = 0; i < view.n; ++i) visit(i, row[i], i);
    return;
  }
  const CsrView<float>& csr = view.sparse_similarity;
  const auto begin = static_cast<std::size_t>(csr.row_start[item]),
             end = static_cast<std::size_t>(csr.row_start[item + 1]);
  for (std::size_t k = begin; k < end; ++k) visit(static_cast<std::size_t>(csr.column[k]), csr.value[k], k - begin);
}

/// mass_i += weight * similarity of `item` to i; `mass` is padded to a multiple of 16.
inline void add_row(const PackingProblem& problem, std::size_t item, double weight, double* mass) {
  if (problem.view().similarity != nullptr) {
    packing_kernels().accumulate(problem.row(item), weight, mass, problem.row_length());
  } else {
    for_row(problem.view(), item,
            [&](std::size_t i, float value, std::size_t) { mass[i] += weight * static_cast<double>(value); });
  }
}

/// Terms of an item's coverage row, visited as (term, position in the row).
template <class Visit>
void for_terms(const PackingView& view, std::size_t item, Visit visit) {
  const auto begin = static_cast<std::size_t>(view.coverage.row_start[item]);
  const auto end = static_cast<std::size_t>(view.coverage.row_start[item + 1]);
  for (std::size_t k = begin; k < end; ++k) visit(static_cast<std::size_t>(view.coverage.column[k]), k - begin);
}

}  // namespace isinglass
