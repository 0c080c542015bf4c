// Similarities from embeddings on the device: unit rows, and the sums of all rows of a matrix that is never stored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver.hpp"

namespace isinglass::cuda {

/// Items are placed 128 at a time, as eight panels of 16: entry k of place r of panel q of group g lies at
/// groups[(g d + k) 128 + 8 r + q], so that what a thread of `row_sums` multiplies lies side by side.
inline constexpr std::uint32_t kGroupItems = 128, kGroupPanels = 8;

struct UnitRowsArgs {
  const float* rows;        // (.., d)
  const std::int32_t* ids;  // (groups, 128): the row of each item, -1 past the last
  float* groups;            // (groups, d, 16, 8)
  float* panels;            // (num_panels, d, 16): as Embeddings holds them, or nullptr
  float* self;              // (groups, 128): 1, 0 of a row of zeros and past the last, NaN of one that is not finite
  std::uint32_t d, num_panels;
};
/// A half of a warp a row: blocks of 128 threads, 8 rows each.
extern const Kernel unit_rows;
inline constexpr std::uint32_t kUnitThreads = 128, kUnitItems = kUnitThreads / 16;

struct RowSumsArgs {
  const float *rows, *columns;               // groups
  const std::int32_t *row_ids, *column_ids;  // (groups, 128); an item with itself is as similar as `self` says
  const float* self;                         // of the rows
  double* lanes;                             // (ranges, row groups, 128, 16): sums so far
  double* sums;                              // (ranges, row groups, 128), written at the end of a range
  std::uint32_t d, num_rows, num_columns;    // in groups
  std::uint32_t range;                       // groups of columns that are summed together
  std::uint32_t first, count;                // of each range, in this launch
};
/// A block of 256 threads a group of rows and a range of columns.
extern const Kernel row_sums;
inline constexpr std::uint32_t kSumThreads = 256, kSumDepth = 16;  // dimensions in shared memory at a time
inline constexpr std::size_t kTileSharedBytes = std::size_t{2} * kSumDepth * kGroupItems * sizeof(float);

struct CosinesArgs {
  const float *rows, *columns;   // groups
  float* out;                    // (n, m)
  std::uint32_t d, num_columns;  // num_columns in groups
  std::uint32_t n, m;
  std::uint32_t first;  // group of rows of this launch
};
/// A block of 256 threads a group of rows and one of columns: every product, clipped to [0, 1].
extern const Kernel cosines_of_groups;

struct ExcessArgs {
  const float* similarities;   // (count, m)
  const std::int32_t* own;     // (count,): the column that is the item itself, or -1
  const float* self;           // (count,): and how similar it is
  const std::int32_t* panels;  // (num_panels,): the columns that are summed, 16 each
  const double* floor;         // by column, padded to whole panels
  double* sums;                // (count,)
  std::uint32_t m, num_panels, count;
};
/// Sums of what similarities exceed the floor by, a half of a warp an item.
extern const Kernel excess_sums;

}  // namespace isinglass::cuda
