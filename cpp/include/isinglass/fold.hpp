// The door of dense QUBOs: any numeric matrix, wherever its rows and columns lie, to the upper triangle that is stored.
#pragma once

#include <cstddef>

namespace isinglass {

enum class Element { f32, f64, i8, i16, i32, i64, u8, u16, u32, u64 };

/// A square matrix in memory that someone else owns; strides in entries, of any sign.
struct StridedMatrix {
  const void* data;
  std::ptrdiff_t row_stride, column_stride;
  Element element;
  std::size_t n;
};

struct Folded {
  std::size_t pairs;  // i < j with a coupling other than 0
  bool plain;         // every number is finite, and every integer at most 2^53, so that none was rounded
};

/// upper[i * n + j] = Q[i, j] + Q[j, i] for i < j, the diagonal as it is; below it nothing is written. One pass.
Folded fold(const StridedMatrix& Q, double* upper, double* linear);

}  // namespace isinglass
