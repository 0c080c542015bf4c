// Which of many numbers is the largest, while they change one by one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "isinglass/aligned.hpp"
#include "isinglass/packing_kernels.hpp"

namespace isinglass {

/// A tree of fan-out 64 whose nodes hold the largest number below them: each is looked at as a whole by the kernel,
/// with no branch that depends on the numbers. A heap's comparisons cost a misprediction every other time.
class Tournament {
 public:
  static constexpr double kAbsent = -1;  // below every number that takes part: those are >= 0

  /// Nothing takes part.
  void reset(std::size_t n) {
    kernels_ = &packing_kernels();
    begin_.clear();
    std::size_t entries = 0;
    for (std::size_t size = std::max<std::size_t>(n, 1);; size = nodes(size)) {
      begin_.push_back(entries);
      entries += (size + kLanes - 1) / kLanes * kLanes;
      if (size <= kWidest) break;
    }
    begin_.push_back(entries);
    value_.assign(entries, kAbsent);
  }

  /// The entries themselves; after writing to them, `rebuild`.
  double* leaves() { return value_.data(); }
  void rebuild() {
    for (std::size_t level = 1; level < num_levels(); ++level) {
      for (std::size_t node = 0; node * kFan < width(level - 1); ++node)
        value_[begin_[level] + node] = best(level - 1, node).value;
    }
  }

  /// Whether every look is at all entries: then it costs as little to drop many as to drop one.
  bool flat() const { return num_levels() == 1; }
  void drop_above(std::span<const double> load, double left) {
    kernels_->drop_above(load.data(), left, kAbsent, value_.data(), load.size());
  }

  double operator[](std::size_t i) const { return value_[i]; }

  /// The largest number and its place, the first of equals; kAbsent if none takes part.
  Largest top() const {
    std::size_t level = num_levels() - 1;
    Largest found = best(level, 0);
    while (level > 0) {
      --level;
      found = best(level, found.index);
    }
    return found;
  }

  void set(std::size_t i, double value) {
    value_[i] = value;
    for (std::size_t level = 1, node = i / kFan; level < num_levels(); ++level, node /= kFan) {
      value_[begin_[level] + node] = best(level - 1, node).value;
    }
  }
  void remove(std::size_t i) { set(i, kAbsent); }

  /// Places, ascending, of what takes part and is at least `least`; returns how many. `out` has room for all.
  std::size_t collect(double least, std::int32_t* out) const {
    return collect(num_levels() - 1, 0, std::max(least, 0.0), out);
  }

 private:
  static constexpr std::size_t kLanes = 16;  // kernels read whole ones
  static constexpr std::size_t kFan = 64;
  static constexpr std::size_t kWidest = 256;  // of the level at the top, which is one node

  static std::size_t nodes(std::size_t size) { return (size + kFan - 1) / kFan; }
  std::size_t num_levels() const { return begin_.size() - 1; }
  std::size_t size_of(std::size_t level, std::size_t from) const {
    return level + 1 == num_levels() ? width(level) : std::min(kFan, width(level) - from);
  }
  std::size_t width(std::size_t level) const { return begin_[level + 1] - begin_[level]; }

  /// Among the entries of one node of a level; the place is counted from the start of the level.
  Largest best(std::size_t level, std::size_t node) const {
    const std::size_t from = node * kFan, count = size_of(level, from);
    Largest found = kernels_->largest(value_.data() + begin_[level] + from, count);
    found.index += from;
    return found;
  }

  std::size_t collect(std::size_t level, std::size_t node, double least, std::int32_t* out) const {
    const std::size_t from = node * kFan, count = size_of(level, from);
    const double* values = value_.data() + begin_[level] + from;
    if (level == 0) {
      const std::size_t found = kernels_->reaching(values, least, out, count);
      for (std::size_t k = 0; k < found; ++k) out[k] += static_cast<std::int32_t>(from);
      return found;
    }
    std::int32_t below[kWidest];
    std::size_t found = 0;
    const std::size_t nodes_found = kernels_->reaching(values, least, below, count);
    for (std::size_t k = 0; k < nodes_found; ++k) {
      found += collect(level - 1, from + static_cast<std::size_t>(below[k]), least, out + found);
    }
    return found;
  }

  const PackingKernels* kernels_ = nullptr;
  std::vector<std::size_t> begin_;  // of each level in `value_`, leaves first
  AlignedVector<double> value_;
};

}  // namespace isinglass
