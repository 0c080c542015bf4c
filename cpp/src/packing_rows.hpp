// Rows of a packing problem and sums in the fixed order, for the files of cpp/src that need them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

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

/// Row `item` of any similarity, visited as (column, value, position in the row).
template <class Visit>
void for_row(const PackingView& view, std::size_t item, Visit visit) {
  if (view.embeddings != nullptr) {
    std::vector<float> row(padded(view.n));
    view.embeddings->row(item, row.data());
    for (std::size_t i = 0; i < view.n; ++i) visit(i, row[i], i);
    return;
  }
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

/// mass_i += similarities of all of `selection` to i. From embeddings panel by panel: each is read once.
inline void add_rows(const PackingProblem& problem, std::span<const Item> selection, double* mass) {
  const Embeddings* embeddings = problem.view().embeddings;
  if (embeddings == nullptr) {
    for (Item item : selection) add_row(problem, static_cast<std::size_t>(item), 1.0, mass);
    return;
  }
  std::vector<std::size_t> items;
  std::vector<float> units(selection.size() * embeddings->dimension()), s(selection.size() * kLanes);
  for (Item item : selection) {
    embeddings->unit(static_cast<std::size_t>(item), units.data() + items.size() * embeddings->dimension());
    items.push_back(static_cast<std::size_t>(item));
  }
  for (std::size_t p = 0; p < embeddings->num_panels(); ++p) {
    embeddings->with_panel(items, units.data(), p, s.data());
    for (std::size_t k = 0; k < items.size(); ++k) {
      packing_kernels().accumulate(s.data() + k * kLanes, 1.0, mass + p * kLanes, kLanes);
    }
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
