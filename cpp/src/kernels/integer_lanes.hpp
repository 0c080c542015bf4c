// Vectors of 32-bit and 16-bit integer fields for kernel files, with what a sweep needs of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && !defined(ISINGLASS_LEVEL_scalar)
#define ISINGLASS_X86 1
// g++ 12 takes the undefined registers of its own intrinsics for mistakes of ours.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#endif

#include "isinglass/random.hpp"

#ifndef ISINGLASS_INLINE
#define ISINGLASS_INLINE static inline __attribute__((always_inline))
#endif
#define ISINGLASS_MEMBER static inline __attribute__((always_inline))

namespace isinglass::ISINGLASS_LEVEL {
namespace {

#if defined(ISINGLASS_LEVEL_scalar)
inline constexpr int kLanes32 = 1;
using U32 = std::uint32_t;
using I32 = std::int32_t;
using F32 = float;
#else
#if defined(ISINGLASS_LEVEL_v4)
#define ISINGLASS_BYTES 64
#elif defined(ISINGLASS_LEVEL_v3)
#define ISINGLASS_BYTES 32
#else
#define ISINGLASS_BYTES 16
#endif
inline constexpr int kLanes32 = ISINGLASS_BYTES / 4;
typedef std::uint32_t U32 __attribute__((vector_size(ISINGLASS_BYTES)));
typedef std::int32_t I32 __attribute__((vector_size(ISINGLASS_BYTES)));
typedef float F32 __attribute__((vector_size(ISINGLASS_BYTES)));
typedef std::int16_t I16 __attribute__((vector_size(ISINGLASS_BYTES)));
#if !defined(ISINGLASS_X86)
typedef std::int16_t HalfI16 __attribute__((vector_size(ISINGLASS_BYTES / 2)));
#endif
#endif

template <class V>
ISINGLASS_INLINE V load_vector(const void* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
ISINGLASS_INLINE void store_vector(void* p, V v) {
  std::memcpy(p, &v, sizeof v);
}

ISINGLASS_INLINE F32 to_float(I32 v) {
#if defined(ISINGLASS_LEVEL_scalar)
  return static_cast<float>(v);
#else
  return __builtin_convertvector(v, F32);
#endif
}
ISINGLASS_INLINE I32 truncated(F32 v) {
#if defined(ISINGLASS_LEVEL_scalar)
  return static_cast<std::int32_t>(v);
#else
  return __builtin_convertvector(v, I32);
#endif
}
ISINGLASS_INLINE F32 smaller(F32 a, F32 b) {
#if defined(ISINGLASS_LEVEL_v4)
  return _mm512_min_ps(a, b);
#elif defined(ISINGLASS_LEVEL_v3)
  return _mm256_min_ps(a, b);
#elif defined(ISINGLASS_X86)
  return _mm_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}

ISINGLASS_INLINE U32 xor3(U32 a, U32 b, U32 c) {
#if defined(ISINGLASS_LEVEL_v4)
  return (U32)_mm512_ternarylogic_epi32((__m512i)a, (__m512i)b, (__m512i)c, 0x96);
#else
  return a ^ b ^ c;
#endif
}
ISINGLASS_INLINE U32 mix_lanes(U32 x, U32 key) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= key;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

/// Keys of one sweep, for `odd24`.
struct SweepKeys {
  U32 k0;
  U32 folded;  // k1 ^ (k1 >> 15): what is left of the second key once its shift is done with that of the word
};
ISINGLASS_INLINE SweepKeys sweep_keys(U32 a, U32 b, std::uint32_t sweep) {
  const U32 k1 = mix_lanes(b + sweep * 0xc2b2ae35U, a);
  return {mix_lanes(a + sweep * 0x85ebca6bU, b), k1 ^ (k1 >> 15)};
}

/// (random_bits >> 8) | 1 of random.hpp, lane by lane, from k0 + variable * kVariableStep, with the shifts merged.
ISINGLASS_INLINE U32 odd24(U32 x, U32 folded) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x = xor3(x, x >> 15, folded);
  x *= 0x846ca68bU;
#if defined(ISINGLASS_LEVEL_v4)
  return (U32)_mm512_ternarylogic_epi32((__m512i)(x >> 8), (__m512i)(x >> 24), _mm512_set1_epi32(1),
                                        0xbe);  // a ^ b | c
#else
  return ((x >> 8) ^ (x >> 24)) | 1U;
#endif
}

/// hot: at temperatures whose thresholds leave 32 bits; cold: only what lowers the energy, without random numbers.
enum class Heat { hot, warm, cold };

/// metropolis_threshold of random.hpp, lane by lane; a hot one ends at 2^31 - 128.
template <Heat kHeat>
ISINGLASS_INLINE I32 thresholds(U32 odd, F32 t2) {
  const F32 f = to_float((I32)odd);
  const U32 w = __builtin_bit_cast(U32, f);
  const F32 e = to_float((I32)(w >> 23));
  const F32 m = __builtin_bit_cast(F32, (w & 0x7fffffU) | 0x3f800000U);
  F32 p = 0.0821295900f * m - 0.649704845f;
  p = p * m + 2.13411929f;
  p = p * m - 4.08636782f;
  p = p * m + 153.519824f;
  const F32 limit = (p - e) * t2;
  if constexpr (kHeat == Heat::hot) return truncated(smaller(limit, F32{} + 2147483520.0f));
  return truncated(limit);
}

/// What no threshold at this temperature exceeds: E is at most 24.
ISINGLASS_INLINE std::int32_t threshold_bound(float t2) {
  const float bound = 24.001f * t2;
  return bound < 2147483520.0f ? static_cast<std::int32_t>(bound) : 2147483647;
}
ISINGLASS_INLINE bool is_hot(float t2) { return threshold_bound(t2) == 2147483647; }

/// A single -1 between zeros: read from kCount - k on, it is the mask of position k.
template <class Field, int kCount>
struct OneHot {
  Field at[2 * kCount] = {};
  constexpr OneHot() { at[kCount] = -1; }
};

/// 32-bit fields.
struct Lanes32 {
  static constexpr int kCount = kLanes32;
  static constexpr int kHalves = 1;  // vectors of 32-bit numbers that make one vector of fields
  static constexpr std::int32_t kLargest = 2147483647;
  using Field = std::int32_t;
  using Fields = I32;
#if defined(ISINGLASS_LEVEL_v4)
  using Mask = __mmask16;
  struct Turn {
    Mask up, down;
  };
#else
  using Mask = I32;  // 0 or -1
  struct Turn {
    I32 step;  // +1, 0 or -1
  };
#endif

  ISINGLASS_MEMBER Fields load(const Field* p) { return load_vector<Fields>(p); }
  ISINGLASS_MEMBER void store(Field* p, Fields v) { store_vector(p, v); }
  ISINGLASS_MEMBER Fields broadcast(std::int32_t v) { return Fields{} + v; }
  /// Position in the vector of fields of lane l of a vector of 32-bit numbers.
  ISINGLASS_MEMBER int position(int, int l) { return l; }
  ISINGLASS_MEMBER Fields joined(const I32* halves) { return halves[0]; }
  ISINGLASS_MEMBER void widened(Fields v, I32* halves) { halves[0] = v; }
  ISINGLASS_MEMBER Mask none() { return Mask{}; }
  ISINGLASS_MEMBER Mask either(Mask m, Mask a, Mask b) { return static_cast<Mask>((m & a) | (~m & b)); }
  ISINGLASS_MEMBER Mask all_or_none(bool all) { return static_cast<Mask>(Mask{} - (all ? Mask{} + kOne : Mask{})); }
#if defined(ISINGLASS_LEVEL_v4)
  static constexpr Mask kOne = 1;
  ISINGLASS_MEMBER Mask one_hot(int k) { return static_cast<Mask>(1U << k); }
#else
  static constexpr Field kOne = 1;
  ISINGLASS_MEMBER Mask one_hot(int k) {
    alignas(64) static constexpr OneHot<Field, kCount> kWindow;
    return load_vector<Mask>(kWindow.at + kCount - k);
  }
#endif
  ISINGLASS_MEMBER Fields load_row(const std::int32_t* p) { return load(p); }
  ISINGLASS_MEMBER Fields load_row(const std::int16_t* p) {
#if defined(ISINGLASS_LEVEL_v4)
    return (Fields)_mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(ISINGLASS_LEVEL_v3)
    return (Fields)_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(ISINGLASS_X86)
    return (Fields)_mm_cvtepi16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
    return widened_row(p);
#endif
  }
  ISINGLASS_MEMBER Fields load_row(const std::int8_t* p) {
#if defined(ISINGLASS_LEVEL_v4)
    return (Fields)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(ISINGLASS_LEVEL_v3)
    return (Fields)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#elif defined(ISINGLASS_X86)
    return (Fields)_mm_cvtepi8_epi32(_mm_cvtsi32_si128(load_vector<std::int32_t>(p)));
#else
    return widened_row(p);
#endif
  }
#if !defined(ISINGLASS_X86)
  template <class Row>
  ISINGLASS_MEMBER Fields widened_row(const Row* p) {
#if defined(ISINGLASS_LEVEL_scalar)
    return *p;
#else
    typedef Row Rows __attribute__((vector_size(sizeof(Row) * kCount)));
    return __builtin_convertvector(load_vector<Rows>(p), Fields);
#endif
  }
#endif

#if defined(ISINGLASS_LEVEL_v4)
  ISINGLASS_MEMBER Mask from_bits(std::uint32_t bits) { return static_cast<Mask>(bits); }
  ISINGLASS_MEMBER std::uint32_t to_bits(Mask m) { return m; }
  ISINGLASS_MEMBER Mask at_most(Fields a, Fields b, Mask live) {
    return _mm512_mask_cmple_epi32_mask(live, (__m512i)a, (__m512i)b);
  }
  ISINGLASS_MEMBER bool any(Mask m) { return m != 0; }
  ISINGLASS_MEMBER Fields negate_where(Mask m, Fields v) {
    return (Fields)_mm512_mask_sub_epi32((__m512i)v, m, _mm512_setzero_si512(), (__m512i)v);
  }
  ISINGLASS_MEMBER Fields where(Mask m, Fields v) { return (Fields)_mm512_maskz_mov_epi32(m, (__m512i)v); }
  ISINGLASS_MEMBER Fields ones_where(Mask m) { return (Fields)_mm512_maskz_set1_epi32(m, 1); }
  ISINGLASS_MEMBER Turn turn(Mask accepted, Mask x) {
    return {static_cast<Mask>(accepted & ~x), static_cast<Mask>(accepted & x)};
  }
  ISINGLASS_MEMBER Fields turned(Fields f, Fields w, Turn t) {
    const __m512i raised = _mm512_mask_add_epi32((__m512i)f, t.up, (__m512i)f, (__m512i)w);
    return (Fields)_mm512_mask_sub_epi32(raised, t.down, raised, (__m512i)w);
  }
#else
  ISINGLASS_MEMBER Mask from_bits(std::uint32_t bits) {
#if defined(ISINGLASS_LEVEL_scalar)
    return -static_cast<std::int32_t>(bits & 1);
#else
    Mask m;
    for (int l = 0; l < kCount; ++l) m[l] = -static_cast<std::int32_t>(bits >> l & 1);
    return m;
#endif
  }
  ISINGLASS_MEMBER std::uint32_t to_bits(Mask m) {
#if defined(ISINGLASS_LEVEL_scalar)
    return static_cast<std::uint32_t>(m) & 1;
#elif defined(ISINGLASS_LEVEL_v3)
    return static_cast<std::uint32_t>(_mm256_movemask_ps((__m256)m));
#elif defined(ISINGLASS_X86)
    return static_cast<std::uint32_t>(_mm_movemask_ps((__m128)m));
#else
    std::uint32_t bits = 0;
    for (int l = 0; l < kCount; ++l) bits |= (static_cast<std::uint32_t>(m[l]) & 1) << l;
    return bits;
#endif
  }
  ISINGLASS_MEMBER Mask at_most(Fields a, Fields b, Mask live) {
#if defined(ISINGLASS_LEVEL_scalar)
    return a <= b ? live : 0;
#else
    return ~(a > b) & live;
#endif
  }
  ISINGLASS_MEMBER bool any(Mask m) { return to_bits(m) != 0; }
  ISINGLASS_MEMBER Fields negate_where(Mask m, Fields v) { return (v ^ m) - m; }
  ISINGLASS_MEMBER Fields where(Mask m, Fields v) { return m & v; }
  ISINGLASS_MEMBER Fields ones_where(Mask m) { return m & 1; }
  ISINGLASS_MEMBER Turn turn(Mask accepted, Mask x) { return {accepted & (x | 1)}; }
  ISINGLASS_MEMBER Fields turned(Fields f, Fields w, Turn t) {
#if defined(ISINGLASS_LEVEL_scalar)
    return f + w * t.step;
#elif defined(ISINGLASS_LEVEL_v3)
    return f + (Fields)_mm256_sign_epi32((__m256i)w, (__m256i)t.step);
#elif defined(ISINGLASS_X86)
    return f + (Fields)_mm_sign_epi32((__m128i)w, (__m128i)t.step);
#else
    return f + w * t.step;
#endif
  }
#endif
};

#if defined(ISINGLASS_LEVEL_scalar)
using Lanes16 = Lanes32;  // nothing to gain from narrow fields without vectors
#else
/// 16-bit fields, for models whose worst field fits.
struct Lanes16 {
  static constexpr int kCount = 2 * kLanes32;
  static constexpr int kHalves = 2;
  static constexpr std::int32_t kLargest = 32767;
  using Field = std::int16_t;
  using Fields = I16;
#if defined(ISINGLASS_LEVEL_v4)
  using Mask = __mmask32;
  struct Turn {
    Mask up, down;
  };
#else
  using Mask = I16;
  struct Turn {
    I16 step;
  };
#endif

  ISINGLASS_MEMBER Fields load(const Field* p) { return load_vector<Fields>(p); }
  ISINGLASS_MEMBER void store(Field* p, Fields v) { store_vector(p, v); }
  ISINGLASS_MEMBER Fields broadcast(std::int32_t v) { return Fields{} + static_cast<std::int16_t>(v); }
  ISINGLASS_MEMBER int position(int half, int l) {
#if defined(ISINGLASS_LEVEL_v3)
    // _mm256_packs_epi32 works within halves of 128 bits: numbers are drawn in the order that it will undo.
    return (l / 4) * 8 + half * 4 + l % 4;
#else
    return half * kLanes32 + l;
#endif
  }
  /// Saturates: a threshold beyond every cost accepts every cost.
  ISINGLASS_MEMBER Fields joined(const I32* halves) {
#if defined(ISINGLASS_LEVEL_v4)
    const __m256i low = _mm512_cvtsepi32_epi16((__m512i)halves[0]), high = _mm512_cvtsepi32_epi16((__m512i)halves[1]);
    return (Fields)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
#elif defined(ISINGLASS_LEVEL_v3)
    return (Fields)_mm256_packs_epi32((__m256i)halves[0], (__m256i)halves[1]);
#elif defined(ISINGLASS_X86)
    return (Fields)_mm_packs_epi32((__m128i)halves[0], (__m128i)halves[1]);
#else
    Fields v;
    for (int l = 0; l < kCount; ++l) {
      const std::int32_t t = halves[l / kLanes32][l % kLanes32];
      v[l] = static_cast<std::int16_t>(t > 32767 ? 32767 : t < -32768 ? -32768 : t);
    }
    return v;
#endif
  }
  ISINGLASS_MEMBER void widened(Fields v, I32* halves) {
#if defined(ISINGLASS_LEVEL_v4)
    halves[0] = (I32)_mm512_cvtepi16_epi32(_mm512_castsi512_si256((__m512i)v));
    halves[1] = (I32)_mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64((__m512i)v, 1));
#elif defined(ISINGLASS_LEVEL_v3)
    halves[0] = (I32)_mm256_cvtepi16_epi32(_mm256_castsi256_si128((__m256i)v));
    halves[1] = (I32)_mm256_cvtepi16_epi32(_mm256_extracti128_si256((__m256i)v, 1));
#elif defined(ISINGLASS_X86)
    halves[0] = (I32)_mm_cvtepi16_epi32((__m128i)v);
    halves[1] = (I32)_mm_cvtepi16_epi32(_mm_srli_si128((__m128i)v, 8));
#else
    HalfI16 half[2];
    std::memcpy(half, &v, sizeof v);
    halves[0] = __builtin_convertvector(half[0], I32);
    halves[1] = __builtin_convertvector(half[1], I32);
#endif
  }
  ISINGLASS_MEMBER Mask none() { return Mask{}; }
  ISINGLASS_MEMBER Mask either(Mask m, Mask a, Mask b) { return static_cast<Mask>((m & a) | (~m & b)); }
  ISINGLASS_MEMBER Mask all_or_none(bool all) { return static_cast<Mask>(Mask{} - (all ? Mask{} + kOne : Mask{})); }
#if defined(ISINGLASS_LEVEL_v4)
  static constexpr Mask kOne = 1;
  ISINGLASS_MEMBER Mask one_hot(int k) { return static_cast<Mask>(1U << k); }
#else
  static constexpr Field kOne = 1;
  ISINGLASS_MEMBER Mask one_hot(int k) {
    alignas(64) static constexpr OneHot<Field, kCount> kWindow;
    return load_vector<Mask>(kWindow.at + kCount - k);
  }
#endif
  ISINGLASS_MEMBER Fields load_row(const std::int16_t* p) { return load(p); }
  ISINGLASS_MEMBER Fields load_row(const std::int8_t* p) {
#if defined(ISINGLASS_LEVEL_v4)
    return (Fields)_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(ISINGLASS_LEVEL_v3)
    return (Fields)_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(ISINGLASS_X86)
    return (Fields)_mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
    typedef std::int8_t Rows __attribute__((vector_size(kCount)));
    return __builtin_convertvector(load_vector<Rows>(p), Fields);
#endif
  }

#if defined(ISINGLASS_LEVEL_v4)
  ISINGLASS_MEMBER Mask from_bits(std::uint32_t bits) { return bits; }
  ISINGLASS_MEMBER std::uint32_t to_bits(Mask m) { return m; }
  ISINGLASS_MEMBER Mask at_most(Fields a, Fields b, Mask live) {
    return _mm512_mask_cmple_epi16_mask(live, (__m512i)a, (__m512i)b);
  }
  ISINGLASS_MEMBER bool any(Mask m) { return m != 0; }
  ISINGLASS_MEMBER Fields negate_where(Mask m, Fields v) {
    return (Fields)_mm512_mask_sub_epi16((__m512i)v, m, _mm512_setzero_si512(), (__m512i)v);
  }
  ISINGLASS_MEMBER Fields where(Mask m, Fields v) { return (Fields)_mm512_maskz_mov_epi16(m, (__m512i)v); }
  ISINGLASS_MEMBER Fields ones_where(Mask m) { return (Fields)_mm512_maskz_set1_epi16(m, 1); }
  ISINGLASS_MEMBER Turn turn(Mask accepted, Mask x) { return {accepted & ~x, accepted & x}; }
  ISINGLASS_MEMBER Fields turned(Fields f, Fields w, Turn t) {
    const __m512i raised = _mm512_mask_add_epi16((__m512i)f, t.up, (__m512i)f, (__m512i)w);
    return (Fields)_mm512_mask_sub_epi16(raised, t.down, raised, (__m512i)w);
  }
#else
  ISINGLASS_MEMBER Mask from_bits(std::uint32_t bits) {
    Mask m;
    for (int l = 0; l < kCount; ++l) m[l] = static_cast<std::int16_t>(-static_cast<std::int32_t>(bits >> l & 1));
    return m;
  }
  ISINGLASS_MEMBER std::uint32_t to_bits(Mask m) {
#if defined(ISINGLASS_LEVEL_v3)
    const __m128i low = _mm256_castsi256_si128((__m256i)m), high = _mm256_extracti128_si256((__m256i)m, 1);
    return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
#elif defined(ISINGLASS_X86)
    return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16((__m128i)m, _mm_setzero_si128())));
#else
    std::uint32_t bits = 0;
    for (int l = 0; l < kCount; ++l) bits |= (static_cast<std::uint32_t>(m[l]) & 1) << l;
    return bits;
#endif
  }
  ISINGLASS_MEMBER Mask at_most(Fields a, Fields b, Mask live) { return ~(a > b) & live; }
  ISINGLASS_MEMBER bool any(Mask m) {
#if defined(ISINGLASS_LEVEL_v3)
    return !_mm256_testz_si256((__m256i)m, (__m256i)m);
#elif defined(ISINGLASS_X86)
    return !_mm_testz_si128((__m128i)m, (__m128i)m);
#else
    return to_bits(m) != 0;
#endif
  }
  ISINGLASS_MEMBER Fields negate_where(Mask m, Fields v) { return (v ^ m) - m; }
  ISINGLASS_MEMBER Fields where(Mask m, Fields v) { return m & v; }
  ISINGLASS_MEMBER Fields ones_where(Mask m) { return m & 1; }
  ISINGLASS_MEMBER Turn turn(Mask accepted, Mask x) { return {accepted & (x | 1)}; }
  ISINGLASS_MEMBER Fields turned(Fields f, Fields w, Turn t) {
#if defined(ISINGLASS_LEVEL_v3)
    return f + (Fields)_mm256_sign_epi16((__m256i)w, (__m256i)t.step);
#elif defined(ISINGLASS_X86)
    return f + (Fields)_mm_sign_epi16((__m128i)w, (__m128i)t.step);
#else
    return f + w * t.step;
#endif
  }
#endif
};
#endif

}  // namespace
}  // namespace isinglass::ISINGLASS_LEVEL
