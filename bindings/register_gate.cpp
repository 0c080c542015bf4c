// What the array gate asks of whole arrays: one pass each, so that checking a few dozen items takes no longer than
// packing them.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "arrays.hpp"

namespace isinglass {
namespace {

bool all_finite(const Array<float>& values) {
  constexpr std::uint32_t kExponent = 0x7f800000U;
  const float* value = values.data();
  const auto n = static_cast<std::size_t>(values.size());
  std::uint32_t infinite = 0;
  for (std::size_t i = 0; i < n; ++i) {
    infinite |= (std::bit_cast<std::uint32_t>(value[i]) & kExponent) == kExponent ? 1U : 0U;
  }
  return infinite == 0;
}

/// Whether all are >= 0 (or > 0) and their sum is finite.
bool all_amounts(const Array<double>& values, bool positive) {
  double least = std::numeric_limits<double>::infinity(), total = 0;
  for (double value : vector_view(values, "values")) {
    least = value < least ? value : least;
    total += value;  // NaN stays
  }
  return (positive ? least > 0 : least >= 0) && std::isfinite(total);
}

/// Row starts and columns of the true entries of a matrix.
py::tuple true_entries(const Array<bool>& matrix) {
  if (matrix.ndim() != 2) throw std::invalid_argument("matrix must be 2-D");
  const auto rows = static_cast<std::size_t>(matrix.shape(0)), columns = static_cast<std::size_t>(matrix.shape(1));
  const bool* entry = matrix.data();
  std::vector<std::int64_t> row_start{0};
  row_start.reserve(rows + 1);
  std::vector<std::int32_t> column;
  column.reserve(rows * columns / 2);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      if (entry[i * columns + j]) column.push_back(static_cast<std::int32_t>(j));
    }
    row_start.push_back(static_cast<std::int64_t>(column.size()));
  }
  return py::make_tuple(to_array<std::int64_t>(row_start), to_array<std::int32_t>(column));
}

/// For each number its place among the distinct ones; None unless all lie in [0, limit).
py::object ranks(const Array<std::int64_t>& numbers, std::int64_t limit) {
  const auto all = vector_view(numbers, "numbers");
  std::vector<std::int32_t> place;
  for (std::int64_t number : all) {
    if (number < 0 || number >= limit) return py::none();
    const auto at = static_cast<std::size_t>(number);
    if (at >= place.size()) place.resize(at + 1, 0);
    place[at] = 1;
  }
  std::int32_t next = 0;
  for (std::int32_t& present : place) {
    const std::int32_t own = next;
    next += present;
    present = own;
  }
  std::vector<std::int32_t> rank;
  rank.reserve(all.size());
  for (std::int64_t number : all) rank.push_back(place[static_cast<std::size_t>(number)]);
  return to_array<std::int32_t>(rank);
}

}  // namespace

void register_gate(py::module_& m) {
  m.def("all_finite", &all_finite, strict("values"));
  m.def("all_amounts", &all_amounts, strict("values"), py::arg("positive"));
  m.def("true_entries", &true_entries, strict("matrix"));
  m.def("ranks", &ranks, strict("numbers"), py::arg("limit"));
}

}  // namespace isinglass
