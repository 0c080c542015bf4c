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

constexpr std::size_t kWord = 64;

/// What says(index of a vector) tells of each entry from `begin` on, as bits of one word: no branch depends on it.
template <class Says>
ISINGLASS_INLINE std::uint64_t word_of(std::size_t begin, std::size_t n, Says says) {
  const std::size_t count = n - begin < kWord ? n - begin : kWord;
  std::uint64_t word = 0;
  for (std::size_t k = 0; k < count; k += kLanes) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kLanes; v += kWidth) word |= bits_of(says(begin + k + v)) << (k + v);
  }
  return word;
}

/// The first index, at or after `from`, of which `says` holds; n if there is none.
template <class Says>
ISINGLASS_INLINE std::size_t first_of(std::size_t from, std::size_t n, Says says) {
  for (std::size_t begin = from - from % kWord; begin < n; begin += kWord) {
    std::uint64_t word = word_of(begin, n, says);
    if (begin < from) word &= ~std::uint64_t{0} << (from - begin);
    if (word != 0) return begin + static_cast<std::size_t>(__builtin_ctzll(word));
  }
  return n;
}

double row_sum(const float* row, std::size_t n, float* peak) {
  Lanes s = zero_lanes();
  Floats most[kLanes / kFloats] = {};
  for_blocks(row, n, [&](std::size_t, const float* block) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) s.v[k] += load_widened(block + k * kWidth);
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kLanes / kFloats; ++k) {
      const Floats entries = load_floats(block + k * kFloats);
      most[k] = entries > most[k] ? entries : most[k];
    }
  });
  float lane[kLanes];
  std::memcpy(lane, most, sizeof lane);
  *peak = lane[0];
  for (std::size_t l = 1; l < kLanes; ++l) *peak = lane[l] > *peak ? lane[l] : *peak;
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

void accumulate_twice(const float* row, double* mass, double* other, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kWidth) {
    const DoubleVector entries = load_widened(row + i);
    store(mass + i, load(mass + i) + entries);
    store(other + i, load(other + i) + entries);
  }
}

void accumulate_rows(const float* rows, std::size_t stride, const double* weights, std::size_t count, double* mass,
                     std::size_t n) {
  // So many columns stay in registers while all rows pass by.
  constexpr std::size_t kRegisters = kVectors < 8 ? 8 : kVectors, kColumns = kRegisters * kWidth;
  std::size_t i = 0;
  for (; i + kColumns <= n; i += kColumns) {
    DoubleVector sum[kRegisters];
#pragma GCC unroll 64
    for (std::size_t k = 0; k < kRegisters; ++k) sum[k] = load(mass + i + k * kWidth);
    for (std::size_t r = 0; r < count; ++r) {
      if (weights[r] == 0) continue;
      const float* row = rows + r * stride + i;
      const DoubleVector weight = DoubleVector{} + weights[r];
#pragma GCC unroll 64
      for (std::size_t k = 0; k < kRegisters; ++k) sum[k] += weight * load_widened(row + k * kWidth);
    }
#pragma GCC unroll 64
    for (std::size_t k = 0; k < kRegisters; ++k) store(mass + i + k * kWidth, sum[k]);
  }
  for (std::size_t r = 0; r < count && i < n; ++r) {
    if (weights[r] != 0) accumulate(rows + r * stride + i, weights[r], mass + i, n - i);
  }
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

Largest largest(const double* values, std::size_t n) {
  DoubleVector top[kVectors];
#pragma GCC unroll 16
  for (std::size_t k = 0; k < kVectors; ++k) top[k] = load(values + k * kWidth);
  for (std::size_t i = kLanes; i < n; i += kLanes) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) top[k] = larger(load(values + i + k * kWidth), top[k]);
  }
#pragma GCC unroll 16
  for (std::size_t k = 1; k < kVectors; ++k) top[0] = larger(top[k], top[0]);
  const double value = largest_entry(top[0]);
  const std::size_t found =
      first_of(0, n, [&](std::size_t i) __attribute__((always_inline)) { return load(values + i) == value; });
  return {value, found};
}

std::size_t reaching(const double* values, double least, std::int32_t* out, std::size_t n) {
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < n; begin += kWord) {
    std::uint64_t word =
        word_of(begin, n, [&](std::size_t i) __attribute__((always_inline)) { return load(values + i) >= least; });
    for (; word != 0; word &= word - 1) {
      out[found++] = static_cast<std::int32_t>(begin + static_cast<std::size_t>(__builtin_ctzll(word)));
    }
  }
  return found;
}

void drop_above(const double* load_of, double left, double absent, double* values, std::size_t n) {
  const DoubleVector none = DoubleVector{} + absent;
  for (std::size_t i = 0; i < n; i += kWidth) {
    store(values + i, load(load_of + i) > left ? none : load(values + i));
  }
}

Priced priced(const double* gain, const double* load_of, double price, std::size_t n) {
  Lanes worth = zero_lanes(), taken = zero_lanes();
  const DoubleVector zero{};
  for (std::size_t i = 0; i < n; i += kLanes) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) {
      const DoubleVector weight = load(load_of + i + k * kWidth);
      const DoubleVector left = load(gain + i + k * kWidth) - price * weight;
      worth.v[k] += larger(left, zero);
      taken.v[k] += left > zero ? weight : zero;
    }
  }
  return {tree_sum(worth), tree_sum(taken)};
}

std::size_t next_above(const double* gain, const double* load_of, double value, double slack, double reach, double left,
                       std::size_t from, std::size_t n) {
  return first_of(from, n, [&](std::size_t i) __attribute__((always_inline)) {
    return (value + load(gain + i) + slack > reach) & (load(load_of + i) <= left);
  });
}

double capped_sum(const double* mass, const double* cap, std::size_t n) {
  Lanes s = zero_lanes();
  for (std::size_t i = 0; i < n; i += kLanes) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kVectors; ++k) {
      s.v[k] += smaller(load(mass + i + k * kWidth), load(cap + i + k * kWidth));
    }
  }
  return tree_sum(s);
}

}  // namespace

extern const PackingKernels packing_kernels;
const PackingKernels packing_kernels = {
    row_sum,         excess,           saturated_add, facility_gain, facility_add, dot,    accumulate, accumulate_twice,
    accumulate_rows, saturation_slope, largest,       reaching,      drop_above,   priced, next_above, capped_sum};

}  // namespace isinglass::ISINGLASS_LEVEL
