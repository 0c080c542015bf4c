// Rows of a packing problem and sums in the fixed order, for the files of cpp/src that need them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "isinglass/packing.hpp"
#include "isinglass/packing_kernels.hpp"

namespace isinglass {

inline constexpr std::size_t kLanes = 16;
inline constexpr std::size_t kRowsBetween = 64;  // two looks at the clock

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
    std::vector<float> row(padded(view.num_targets()));
    view.embeddings->row(view.row_of(item), row.data());
    for (std::size_t i = 0; i < view.num_targets(); ++i) visit(i, row[i], i);
    return;
  }
  if (view.similarity != nullptr) {
    const float* row = view.similarity + view.row_of(item) * view.num_targets();
    for (std::size_t i = 0; i < view.num_targets(); ++i) visit(i, row[i], i);
    return;
  }
  const CsrView<float>& csr = view.sparse_similarity;
  const std::size_t own = view.row_of(item);
  const auto begin = static_cast<std::size_t>(csr.row_start[own]),
             end = static_cast<std::size_t>(csr.row_start[own + 1]);
  for (std::size_t k = begin; k < end; ++k) visit(static_cast<std::size_t>(csr.column[k]), csr.value[k], k - begin);
}

/// Rows of several items of embeddings, visited as (position in `items`, row): panels serve sixteen items at a time.
/// `rows` is memory to work in.
template <class Visit>
void for_embedded_rows(const PackingView& view, std::span<const Item> items, std::vector<float>& rows, Visit visit) {
  constexpr std::size_t kTogether = 16;
  const Embeddings& embeddings = *view.embeddings;
  const std::size_t d = embeddings.dimension(), width = padded(view.num_targets());
  rows.resize(std::min(kTogether, items.size()) * width);
  if (items.size() == 1) {
    embeddings.row(view.row_of(static_cast<std::size_t>(items[0])), rows.data());
    visit(0, rows.data());
    return;
  }
  std::vector<float> units(kTogether * d);
  for (std::size_t begin = 0; begin < items.size(); begin += kTogether) {
    const std::size_t count = std::min(kTogether, items.size() - begin);
    std::size_t item[kTogether];
    float block[kTogether * kLanes];
    for (std::size_t k = 0; k < count; ++k) {
      item[k] = view.row_of(static_cast<std::size_t>(items[begin + k]));
      embeddings.unit(item[k], units.data() + k * d);
    }
    for (std::size_t p = 0; p < embeddings.num_panels(); ++p) {
      embeddings.with_panel({item, count}, units.data(), p, block);
      for (std::size_t k = 0; k < count; ++k) {
        std::copy_n(block + k * kLanes, kLanes, rows.data() + k * width + p * kLanes);
      }
    }
    for (std::size_t k = 0; k < count; ++k) visit(begin + k, rows.data() + k * width);
  }
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
  for (Item item : selection) items.push_back(problem.view().row_of(static_cast<std::size_t>(item)));
  embeddings->add_rows(items, mass);
}

/// Terms of an item's coverage row, visited as (term, position in the row).
template <class Visit>
void for_terms(const PackingView& view, std::size_t item, Visit visit) {
  const std::size_t own = view.row_of(item);
  const auto begin = static_cast<std::size_t>(view.coverage.row_start[own]);
  const auto end = static_cast<std::size_t>(view.coverage.row_start[own + 1]);
  for (std::size_t k = begin; k < end; ++k) visit(static_cast<std::size_t>(view.coverage.column[k]), k - begin);
}

}  // namespace isinglass
