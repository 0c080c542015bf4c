// The inner loops of packing, compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isinglass/isa.hpp"

namespace isinglass {

/// The largest of some numbers, and where it is: the first of equals.
struct Largest {
  double value;
  std::size_t index;
};

/// What items are worth beyond a price for their load, and the load of those that are worth more.
struct Priced {
  double worth;
  double load;
};

/// All sums run in 16 lanes (lane = index mod 16) that are added as a fixed binary tree, so every table gives the
/// same bits. Rows of a multiple of 16 entries are fastest. `headroom` and `peak` are padded with zeros to a multiple
/// of 16.
struct PackingKernels {
  /// The sum of a row of entries >= 0; `peak` becomes the largest one.
  double (*row_sum)(const float* row, std::size_t n, float* peak);
  /// out_k = sum_i max(0, row_i - headroom_i) of rows[k], over the given blocks of 16 entries (ascending): what of a
  /// row finds no room. Blocks in which no row can exceed the headroom may be left out; they would add exact zeros.
  void (*excess)(const float* const* rows, std::size_t count, const std::int32_t* blocks, std::size_t num_blocks,
                 const double* headroom, std::size_t n, double* out);
  /// headroom_i <- max(0, headroom_i - row_i); tight_b <- 1 for blocks b of 16 entries with some headroom_i < peak_i
  void (*saturated_add)(const float* row, const double* peak, double* headroom, std::uint8_t* tight, std::size_t n);
  /// sum_i max(0, row_i - nearest_i)
  double (*facility_gain)(const float* row, const float* nearest, std::size_t n);
  /// nearest_i <- max(nearest_i, row_i)
  void (*facility_add)(const float* row, float* nearest, std::size_t n);
  double (*dot)(const float* a, const float* b, std::size_t n);
  /// mass_i += weight * row_i
  void (*accumulate)(const float* row, double weight, double* mass, std::size_t n);
  /// mass_i += row_i and other_i += row_i; n is a multiple of 16
  void (*accumulate_twice)(const float* row, double* mass, double* other, std::size_t n);
  /// mass_i += weight * row_i for rows `stride` apart, in their order; those of weight 0 are passed over.
  void (*accumulate_rows)(const float* rows, std::size_t stride, const double* weights, std::size_t count, double* mass,
                          std::size_t n);
  /// sum_i d_i clamp(1/2 + (cap_i - mass_i - step d_i) scale_i, 0, 1); all padded with zeros to a multiple of 16
  double (*saturation_slope)(const double* mass, const double* direction, const double* cap, const double* scale,
                             double step, std::size_t n);

  // The rest reads whole blocks: n is a multiple of 16, and padding is what never wins or counts.
  Largest (*largest)(const double* values, std::size_t n);
  /// The i with values_i >= least, ascending; returns how many.
  std::size_t (*reaching)(const double* values, double least, std::int32_t* out, std::size_t n);
  /// values_i <- absent where load_i > left
  void (*drop_above)(const double* load, double left, double absent, double* values, std::size_t n);
  /// sum_i max(0, gain_i - price load_i), and sum of load_i over gain_i > price load_i
  Priced (*priced)(const double* gain, const double* load, double price, std::size_t n);
  /// The first i >= from with value + gain_i + slack > reach and load_i <= left; n if there is none.
  std::size_t (*next_above)(const double* gain, const double* load, double value, double slack, double reach,
                            double left, std::size_t from, std::size_t n);
  /// sum_i min(mass_i, cap_i)
  double (*capped_sum)(const double* mass, const double* cap, std::size_t n);
};

ISINGLASS_DECLARE_KERNELS(PackingKernels, packing_kernels)

}  // namespace isinglass
