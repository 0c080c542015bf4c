// Sixteen lanes of doubles for kernel files: the fixed order of every packing sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ISINGLASS_INLINE static inline __attribute__((always_inline))

namespace isinglass::ISINGLASS_LEVEL {

inline constexpr std::size_t kLanes = 16;

#if defined(ISINGLASS_LEVEL_scalar)
inline constexpr std::size_t kWidth = 1;
using DoubleVector = double;
using FloatVector = float;
using DoubleMask = bool;
inline constexpr std::size_t kFloats = 1;
using Floats = float;  // as many as a vector holds
#else
// The native width of the level: wider vectors are split by the compiler, but they spill.
#if defined(ISINGLASS_LEVEL_v4)
#define ISINGLASS_WIDTH 8
#elif defined(ISINGLASS_LEVEL_v3)
#define ISINGLASS_WIDTH 4
#else
#define ISINGLASS_WIDTH 2
#endif
inline constexpr std::size_t kWidth = ISINGLASS_WIDTH;
typedef double DoubleVector __attribute__((vector_size(8 * ISINGLASS_WIDTH)));
typedef float FloatVector __attribute__((vector_size(4 * ISINGLASS_WIDTH)));
typedef std::int64_t DoubleMask __attribute__((vector_size(8 * ISINGLASS_WIDTH)));  // of a comparison
inline constexpr std::size_t kFloats = 2 * kWidth;
typedef float Floats __attribute__((vector_size(8 * ISINGLASS_WIDTH)));
#endif
inline constexpr std::size_t kVectors = kLanes / kWidth;

struct Lanes {
  DoubleVector v[kVectors];
};

ISINGLASS_INLINE Floats load_floats(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
ISINGLASS_INLINE DoubleVector load(const double* p) {
  DoubleVector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
ISINGLASS_INLINE void store(double* p, DoubleVector v) { std::memcpy(p, &v, sizeof v); }

ISINGLASS_INLINE DoubleVector load_widened(const float* p) {
#if defined(ISINGLASS_LEVEL_scalar)
  return static_cast<double>(*p);
#elif defined(ISINGLASS_LEVEL_v4)
  // The compiler splits the generic conversion of eight floats in two. (Full mask: the plain intrinsic makes g++ 12
  // warn of an undefined operand.)
  return (DoubleVector)_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(p));
#else
  FloatVector f;
  std::memcpy(&f, p, sizeof f);
  return __builtin_convertvector(f, DoubleVector);
#endif
}

ISINGLASS_INLINE DoubleVector smaller(DoubleVector a, DoubleVector b) { return a < b ? a : b; }
ISINGLASS_INLINE DoubleVector larger(DoubleVector a, DoubleVector b) { return a > b ? a : b; }

/// The largest entry.
ISINGLASS_INLINE double largest_entry(DoubleVector v) {
#if defined(ISINGLASS_LEVEL_scalar)
  return v;
#else
#if defined(ISINGLASS_LEVEL_v4)
  typedef double Four __attribute__((vector_size(32)));
  const Four low = __builtin_shufflevector(v, v, 0, 1, 2, 3), high = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  const Four four = low > high ? low : high;
#elif defined(ISINGLASS_LEVEL_v3)
  const DoubleVector four = v;
#endif
#if defined(ISINGLASS_LEVEL_v4) || defined(ISINGLASS_LEVEL_v3)
  typedef double Two __attribute__((vector_size(16)));
  const Two first = __builtin_shufflevector(four, four, 0, 1), last = __builtin_shufflevector(four, four, 2, 3);
  const Two two = first > last ? first : last;
#else
  const DoubleVector two = v;
#endif
  return two[0] > two[1] ? two[0] : two[1];
#endif
}

/// Whether any entry is above zero; entries are no NaN.
ISINGLASS_INLINE bool any_positive(DoubleVector v) {
#if defined(ISINGLASS_LEVEL_scalar)
  return v > 0;
#elif defined(ISINGLASS_LEVEL_v4)
  return _mm512_cmp_pd_mask((__m512d)v, _mm512_setzero_pd(), _CMP_GT_OQ) != 0;
#elif defined(ISINGLASS_LEVEL_v3)
  return _mm256_movemask_pd((__m256d)(v > DoubleVector{})) != 0;
#else
  double lane[kWidth];
  std::memcpy(lane, &v, sizeof lane);
  return lane[0] > 0 || lane[1] > 0;
#endif
}

/// Bit l: what a comparison says of entry l.
ISINGLASS_INLINE std::uint64_t bits_of(DoubleMask m) {
#if defined(ISINGLASS_LEVEL_scalar)
  return m ? 1 : 0;
#elif defined(ISINGLASS_LEVEL_v4)
  return _mm512_movepi64_mask((__m512i)m);
#elif defined(ISINGLASS_LEVEL_v3)
  return static_cast<std::uint64_t>(_mm256_movemask_pd((__m256d)m));
#elif defined(__x86_64__)
  return static_cast<std::uint64_t>(_mm_movemask_pd((__m128d)m));
#else
  return (m[0] ? 1 : 0) | (m[1] ? 2 : 0);
#endif
}

ISINGLASS_INLINE Lanes zero_lanes() {
  Lanes s;
#pragma GCC unroll 16
  for (std::size_t k = 0; k < kVectors; ++k) s.v[k] = DoubleVector{};
  return s;
}

/// Halves are added until one lane is left: (l0 + l8) .. (l7 + l15), then distances 4, 2 and 1. Whole vectors are added
/// as long as a half is one, the rest goes through memory once.
ISINGLASS_INLINE double tree_sum(const Lanes& s) {
  DoubleVector v[kVectors];
#pragma GCC unroll 16
  for (std::size_t k = 0; k < kVectors; ++k) v[k] = s.v[k];
  std::size_t vectors = kVectors;
#pragma GCC unroll 4
  for (; vectors > 1; vectors /= 2) {
#pragma GCC unroll 8
    for (std::size_t k = 0; k < vectors / 2; ++k) v[k] += v[k + vectors / 2];
  }
#if defined(ISINGLASS_LEVEL_v4)
  typedef double Four __attribute__((vector_size(32)));
  const Four four = __builtin_shufflevector(v[0], v[0], 0, 1, 2, 3) + __builtin_shufflevector(v[0], v[0], 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
#else
  double lane[kWidth];
  std::memcpy(lane, &v[0], sizeof lane);
#pragma GCC unroll 4
  for (std::size_t half = kWidth / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  }
  return lane[0];
#endif
}

}  // namespace isinglass::ISINGLASS_LEVEL
