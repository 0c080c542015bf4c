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
ISINGLASS_INLINE void saturated_rows(const float* const (&row)[kRows], const double* headroom, std::size_t n,
                                     double* out) {
  Lanes s[kRows];
  for (std::size_t r = 0; r < kRows; ++r) s[r] = zero_lanes();
  const std::size_t whole = n - n % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) {
      const DoubleVector h = load(headroom + i + k * kWidth);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRows; ++r) s[r].v[k] += smaller(load_widened(row[r] + i + k * kWidth), h);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    if (whole < n) {
      float rest[kLanes] = {};
      for (std::size_t i = whole; i < n; ++i) rest[i - whole] = row[r][i];
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kVectors; ++k) {
        s[r].v[k] += smaller(load_widened(rest + k * kWidth), load(headroom + whole + k * kWidth));
      }
    }
    out[r] = tree_sum(s[r]);
  }
}

void saturated_gains(const float* matrix, const std::int32_t* items, std::size_t count, const double* headroom,
                     std::size_t n, double* out) {
  const auto row = [&](std::size_t k)
                       __attribute__((always_inline)) { return matrix + static_cast<std::size_t>(items[k]) * n; };
  std::size_t k = 0;
  for (; k + 4 <= count; k += 4) {
    const float* const rows[] = {row(k), row(k + 1), row(k + 2), row(k + 3)};
    saturated_rows(rows, headroom, n, out + k);
  }
  for (; k < count; ++k) {
    const float* const rows[] = {row(k)};
    saturated_rows(rows, headroom, n, out + k);
  }
}

void saturated_add(const float* row, double* headroom, std::size_t n) {
  for_blocks(row, n, [&](std::size_t i, const float* block) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) {
      double* h = headroom + i + k * kWidth;
      store(h, larger(load(h) - load_widened(block + k * kWidth), DoubleVector{}));
    }
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
const PackingKernels packing_kernels = {row_sum, saturated_gains, saturated_add,   facility_gain, facility_add,
                                        dot,     accumulate,      saturation_slope};

}  // namespace isinglass::ISINGLASS_LEVEL
