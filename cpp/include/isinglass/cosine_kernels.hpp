// Inner products of unit rows, compiled once per instruction set.
#pragma once

#include <cstddef>

#include "isinglass/isa.hpp"

namespace isinglass {

/// Rows come in panels of 16, dimension by dimension: entry k of row r of a panel is panel[16 k + r]. Each product is
/// summed over the dimensions in their order, in float32 without fused steps, and clipped to [0, 1]: the same bits for
/// any layout and on every level.
struct CosineKernels {
  /// out[16 r + c] = cosine of row r of `a` and row c of `b`
  void (*of_panels)(const float* a, const float* b, std::size_t d, float* out);
  /// out[16 r + c] = cosine of row r of `units`, (count, d) by rows, and row c of `panel`
  void (*of_rows)(const float* units, std::size_t count, const float* panel, std::size_t d, float* out);
};

ISINGLASS_DECLARE_KERNELS(CosineKernels, cosine_kernels)

}  // namespace isinglass
