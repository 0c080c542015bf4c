#include "isinglass/fold.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace isinglass {
namespace {

// Rows of the block whose mirror image is read by columns: their lines stay in the cache until all is read from them.
constexpr std::size_t kBlock = 128;

// Both count 0 or 1 in 64 bits, the width of the sums: a bool in between would be widened again, lane by lane.
template <class T>
std::uint64_t exceeds(T value) {
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    constexpr T kExact = T{1} << 53;
    if constexpr (std::is_signed_v<T>) return value > kExact || value < -kExact;
    return value > kExact;
  }
  return 0;
}

std::uint64_t infinite(double value) {
  constexpr std::uint64_t kExponent = 0x7ff0000000000000ULL;
  return (std::bit_cast<std::uint64_t>(value) & kExponent) == kExponent;
}

struct Counts {
  std::uint64_t pairs = 0, odd = 0;  // odd: what is not plain
};

/// out[k] = row[k * step] + column[k * down]. `Step` is a type where it is 1: then the row is read as vectors.
template <class T, class Step>
Counts fold_row(const T* row, Step step, const T* column, std::ptrdiff_t down, std::size_t begin, std::size_t end,
                double* __restrict out) {
  Counts counts;
  for (auto k = static_cast<std::ptrdiff_t>(begin); k < static_cast<std::ptrdiff_t>(end); ++k) {
    const T there = row[k * step], back = column[k * down];
    const double sum = static_cast<double>(there) + static_cast<double>(back);
    counts.odd += exceeds(there) + exceeds(back) + infinite(sum);
    counts.pairs += sum != 0;
    out[k] = sum;
  }
  return counts;
}

template <class T>
Folded fold_as(const StridedMatrix& Q, double* upper, double* linear) {
  const std::size_t n = Q.n;
  const T* first = static_cast<const T*>(Q.data);
  const std::ptrdiff_t down = Q.row_stride, across = Q.column_stride;
  Counts total;
  for (std::size_t top = 0; top < n; top += kBlock) {
    for (std::size_t left = top; left < n; left += kBlock) {
      const std::size_t bottom = std::min(top + kBlock, n), right = std::min(left + kBlock, n);
      for (std::size_t i = top; i < bottom; ++i) {
        const T* row = first + static_cast<std::ptrdiff_t>(i) * down;
        const T* column = first + static_cast<std::ptrdiff_t>(i) * across;
        const std::size_t begin = std::max(left, i + 1);
        double* out = upper + i * n;
        const Counts counts =
            across == 1 ? fold_row(row, std::integral_constant<std::ptrdiff_t, 1>{}, column, down, begin, right, out)
                        : fold_row(row, across, column, down, begin, right, out);
        total.pairs += counts.pairs;
        total.odd += counts.odd;
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    const T own = first[static_cast<std::ptrdiff_t>(i) * (down + across)];
    linear[i] = upper[i * n + i] = static_cast<double>(own);
    total.odd += exceeds(own) + infinite(linear[i]);
  }
  return {total.pairs, total.odd == 0};
}

}  // namespace

Folded fold(const StridedMatrix& Q, double* upper, double* linear) {
  switch (Q.element) {
    case Element::f32:
      return fold_as<float>(Q, upper, linear);
    case Element::f64:
      return fold_as<double>(Q, upper, linear);
    case Element::i8:
      return fold_as<std::int8_t>(Q, upper, linear);
    case Element::i16:
      return fold_as<std::int16_t>(Q, upper, linear);
    case Element::i32:
      return fold_as<std::int32_t>(Q, upper, linear);
    case Element::i64:
      return fold_as<std::int64_t>(Q, upper, linear);
    case Element::u8:
      return fold_as<std::uint8_t>(Q, upper, linear);
    case Element::u16:
      return fold_as<std::uint16_t>(Q, upper, linear);
    case Element::u32:
      return fold_as<std::uint32_t>(Q, upper, linear);
    case Element::u64:
      return fold_as<std::uint64_t>(Q, upper, linear);
  }
  return {0, false};
}

}  // namespace isinglass
