// Similarities that are computed from embeddings when they are looked at.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "isinglass/control.hpp"

namespace isinglass {

/// Unit rows of an (n, d) matrix; similarity(i, j) = max(0, cosine), 1 of a row with itself, 0 of a row of zeros with
/// any. In float32, each summed over the dimensions in their order: the same bits however they are asked for.
class Embeddings {
 public:
  static constexpr std::size_t kPanel = 16;  // rows

  /// Copies and scales the rows; `rows` may be changed afterwards.
  Embeddings(const float* rows, std::size_t n, std::size_t d);

  std::size_t size() const { return n_; }
  std::size_t dimension() const { return d_; }
  std::size_t num_panels() const { return (n_ + kPanel - 1) / kPanel; }
  /// Similarity of an item with itself: 1, or 0 of a row of zeros.
  float self(std::size_t item) const { return self_[item]; }
  /// The unit row of an item, (d,).
  void unit(std::size_t item, float* out) const;

  /// Similarities of `items`, whose unit rows are `units` (count, d), with the 16 items of a panel: out (count, 16).
  /// Past the last item they are 0.
  void with_panel(std::span<const std::size_t> items, const float* units, std::size_t panel, float* out) const;
  /// Row `item` of the matrix, (n,) and what its last panel has beyond.
  void row(std::size_t item, float* out) const;

  /// The matrix (n, n).
  void matrix(float* out, int threads, Control& control) const;
  /// Sums of its rows, (n,), in 16 lanes like those of a stored row. One pass over half of the matrix, by tiles; with
  /// more than two threads the whole of it, split by rows. Undefined once `control` has stopped.
  std::vector<double> degrees(int threads, Control& control) const;

 private:
  const float* panel(std::size_t p) const { return panels_.data() + p * kPanel * d_; }
  void tile(std::size_t a, std::size_t b, float* out) const;

  std::size_t n_, d_;
  std::vector<float> panels_;  // entry k of row r of panel p at [(p d + k) 16 + r]
  std::vector<float> self_;
};

}  // namespace isinglass
