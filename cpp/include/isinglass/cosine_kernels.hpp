// Inner products of unit rows, compiled once per instruction set.
#pragma once

#include <cstddef>

#include "isinglass/isa.hpp"

namespace isinglass {

/// Columns come in panels of 16, dimension by dimension: entry k of column c of a panel is panel[16 k + c]. Each
/// product is summed over the dimensions in their order, in float32 by the fused multiply-add of IEEE 754, and clipped
/// to [0, 1]. One rounding a step is part of the definition here: levels that lack the instruction compute it exactly,
/// so the bits are the same for any layout and on every level and device.
struct CosineKernels {
  /// out[256 p + 16 r + c] = cosine of row r of `a` (a panel, too) and column c of panel p, of panels that follow each
  /// other from `b`
  void (*of_panels)(const float* a, const float* b, std::size_t num_panels, std::size_t d, float* out);
  /// out[16 r + c] = cosine of row r of `units`, (count, d) by rows, and column c of `panel`
  void (*of_rows)(const float* units, std::size_t count, const float* panel, std::size_t d, float* out);
  /// out[16 p + c] = cosine of one row and column c of panel p, of panels that follow each other
  void (*of_row)(const float* unit, const float* panels, std::size_t num_panels, std::size_t d, float* out);
  /// out = row times `factor`, in double, rounded. Entries below 2^-60 become 0: then no product or sum is subnormal.
  void (*scaled)(const float* row, double factor, std::size_t d, float* out);
};

ISINGLASS_DECLARE_KERNELS(CosineKernels, cosine_kernels)

}  // namespace isinglass
