#include "isinglass/packing_kernels.hpp"

#include "lanes.hpp"

namespace isinglass::ISINGLASS_LEVEL {
namespace {

/// Calls block(offset, row) for each 16 entries; the last, short ones come from a copy that is filled up with zeros, so
/// that nothing past the caller's array is read and absent entries add nothing.
template <class Block>
ISINGLASS_INLINE void for_blocks(const float* row, std::size_t n, Block block) {
  const std::size_t whole = n - n % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) block(i, row + i);
  if (whole < n) {
    float rest[kLanes] = {};
    for (std::size_t i = whole; i < n; ++i) rest[i - whole] = row[i];
    block(whole, rest);
  }
}

double row_sum(const float* row, std::size_t n) {
  Lanes s = zero_lanes();
  for_blocks(row, n, [&](std::size_t, const float* block) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) s.v[k] += load_widened(block + k * kWidth);
  });
  return tree_sum(s);
}

/// Several rows at a time: their sums do not wait for each other, and share the loads of `headroom`.
template <std::size_t kRows>
ISINGLASS_INLINE void excess_of_rows(const float* const* rows, const std::int32_t* blocks, std::size_t num_blocks,
                                     const double* headroom, std::size_t n, double* out) {
  Lanes s[kRows];
  for (std::size_t r = 0; r < kRows; ++r) s[r] = zero_lanes();
  const std::size_t whole = n / kLanes;  // blocks
  const bool last_is_short = num_blocks > 0 && static_cast<std::size_t>(blocks[num_blocks - 1]) == whole;
  for (std::size_t b = 0; b < num_blocks - last_is_short; ++b) {
    const std::size_t i = static_cast<std::size_t>(blocks[b]) * kLanes;
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) {
      const DoubleVector h = load(headroom + i + k * kWidth);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRows; ++r) {
        s[r].v[k] += larger(load_widened(rows[r] + i + k * kWidth) - h, DoubleVector{});
      }
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    if (last_is_short) {
      float rest[kLanes] = {};
      for (std::size_t i = whole * kLanes; i < n; ++i) rest[i - whole * kLanes] = rows[r][i];
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kVectors; ++k) {
        const DoubleVector h = load(headroom + whole * kLanes + k * kWidth);
        s[r].v[k] += larger(load_widened(rest + k * kWidth) - h, DoubleVector{});
      }
    }
    out[r] = tree_sum(s[r]);
  }
}

void excess(const float* const* rows, std::size_t count, const std::int32_t* blocks, std::size_t num_blocks,
            const double* headroom, std::size_t n, double* out) {
  std::size_t k = 0;
  for (; k + 4 <= count; k += 4) excess_of_rows<4>(rows + k, blocks, num_blocks, headroom, n, out + k);
  for (; k < count; ++k) excess_of_rows<1>(rows + k, blocks, num_blocks, headroom, n, out + k);
}

void saturated_add(const float* row, const double* peak, double* headroom, std::uint8_t* tight, std::size_t n) {
  for_blocks(row, n, [&](std::size_t i, const float* block) __attribute__((always_inline)) {
    DoubleVector over{};
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) {
      double* h = headroom + i + k * kWidth;
      const DoubleVector left = larger(load(h) - load_widened(block + k * kWidth), DoubleVector{});
      over = larger(over, load(peak + i + k * kWidth) - left);
      store(h, left);
    }
    if (any_positive(over)) tight[i / kLanes] = 1;
  });
}

double facility_gain(const float* row, const float* nearest, std::size_t n) {
  Lanes s = zero_lanes();
  // `nearest` is padded like headroom, so whole blocks of it may be read.
  for_blocks(row, n, [&](std::size_t i, const float* block) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) {
      s.v[k] += larger(load_widened(block + k * kWidth) - load_widened(nearest + i + k * kWidth), DoubleVector{});
    }
  });
  return tree_sum(s);
}

void facility_add(const float* row, float* nearest, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) nearest[i] = row[i] > nearest[i] ? row[i] : nearest[i];
}

double dot(const float* a, const float* b, std::size_t n) {
  Lanes s = zero_lanes();
  const std::size_t whole = n - n % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) {
      s.v[k] += load_widened(a + i + k * kWidth) * load_widened(b + i + k * kWidth);
    }
  }
  if (whole < n) {
    float rest_a[kLanes] = {}, rest_b[kLanes] = {};
    for (std::size_t i = whole; i < n; ++i) {
      rest_a[i - whole] = a[i];
      rest_b[i - whole] = b[i];
    }
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) {
      s.v[k] += load_widened(rest_a + k * kWidth) * load_widened(rest_b + k * kWidth);
    }
  }
  return tree_sum(s);
}

void accumulate(const float* row, double weight, double* mass, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) mass[i] += weight * static_cast<double>(row[i]);
}

double saturation_slope(const double* mass, const double* direction, const double* cap, const double* scale,
                        double step, std::size_t n) {
  Lanes s = zero_lanes();
  const DoubleVector zero{}, one = zero + 1.0, half = zero + 0.5, steps = zero + step;
  for (std::size_t i = 0; i < n; i += kLanes) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) {
      const std::size_t at = i + k * kWidth;
      const DoubleVector d = load(direction + at);
      const DoubleVector slope = half + (load(cap + at) - (load(mass + at) + steps * d)) * load(scale + at);
      s.v[k] += smaller(larger(slope, zero), one) * d;
    }
  }
  return tree_sum(s);
}

}  // namespace

extern const PackingKernels packing_kernels;
const PackingKernels packing_kernels = {row_sum,      excess, saturated_add, facility_gain,
                                        facility_add, dot,    accumulate,    saturation_slope};

}  // namespace isinglass::ISINGLASS_LEVEL
