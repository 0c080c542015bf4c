#include "isinglass/cosine_kernels.hpp"

#include "lanes.hpp"

namespace isinglass::ISINGLASS_LEVEL {
namespace {

inline constexpr std::size_t kParts = kLanes / kFloats;  // vectors of a panel's width
// As many rows at a time as leave registers for the panel: their sums do not wait for each other.
#if defined(ISINGLASS_LEVEL_v4)
inline constexpr std::size_t kTogether = 16, kRowsOfTwo = 8;
#elif defined(ISINGLASS_LEVEL_v3)
inline constexpr std::size_t kTogether = 4, kRowsOfTwo = 0;
#else
inline constexpr std::size_t kTogether = 2, kRowsOfTwo = 0;
#endif
inline constexpr std::size_t kFew = kTogether < 4 ? kTogether : 4;
inline constexpr std::size_t kPanelsTogether = kParts < 8 ? 8 / kParts : 1;

/// sum + entry * b, rounded once. Finite numbers only.
ISINGLASS_INLINE Floats fused(float entry, Floats b, Floats sum) {
#if defined(ISINGLASS_LEVEL_scalar)
  return __builtin_fmaf(entry, b, sum);
#elif defined(ISINGLASS_LEVEL_v4)
  return (Floats)_mm512_fmadd_ps(_mm512_set1_ps(entry), (__m512)b, (__m512)sum);
#elif defined(ISINGLASS_LEVEL_v3)
  return (Floats)_mm256_fmadd_ps(_mm256_set1_ps(entry), (__m256)b, (__m256)sum);
#elif defined(__x86_64__)
  // In double the product is exact and the sum is rounded once; rounding that to float is the same as rounding the
  // exact sum unless it lies halfway between two floats, which the last 29 bits tell.
  const __m128d factor = _mm_set1_pd(static_cast<double>(entry));
  const __m128i below = _mm_set1_epi64x(0x1fffffff), halfway = _mm_set1_epi64x(0x10000000);
  const __m128 bs = (__m128)b, sums = (__m128)sum;
  const __m128d low = _mm_add_pd(_mm_mul_pd(factor, _mm_cvtps_pd(bs)), _mm_cvtps_pd(sums));
  const __m128d high =
      _mm_add_pd(_mm_mul_pd(factor, _mm_cvtps_pd(_mm_movehl_ps(bs, bs))), _mm_cvtps_pd(_mm_movehl_ps(sums, sums)));
  const __m128i ties = _mm_or_si128(_mm_cmpeq_epi64(_mm_and_si128(_mm_castpd_si128(low), below), halfway),
                                    _mm_cmpeq_epi64(_mm_and_si128(_mm_castpd_si128(high), below), halfway));
  if (__builtin_expect(_mm_testz_si128(ties, ties) == 0, 0)) {
    Floats out;
    for (std::size_t l = 0; l < kFloats; ++l) out[l] = __builtin_fmaf(entry, b[l], sum[l]);
    return out;
  }
  return (Floats)_mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
#else
  Floats out;
#pragma GCC unroll 16
  for (std::size_t l = 0; l < kFloats; ++l) out[l] = __builtin_fmaf(entry, b[l], sum[l]);
  return out;
#endif
}

ISINGLASS_INLINE void store_clipped(Floats sum, float* out) {
  const Floats zero{}, one = zero + 1.0f;
  const Floats above = sum > zero ? sum : zero;
  const Floats clipped = above < one ? above : one;
  std::memcpy(out, &clipped, sizeof clipped);
}

/// kRows rows, entry k of row r at a[k * dimension_step + r * row_step], against kPanels panels that follow each other:
/// out[q * panel_step + 16 r + c].
template <std::size_t kRows, std::size_t kPanels>
ISINGLASS_INLINE void cosines(const float* a, std::size_t row_step, std::size_t dimension_step, const float* panels,
                              std::size_t d, float* out, std::size_t panel_step) {
  constexpr std::size_t kVectorsWide = kPanels * kParts;
  Floats sum[kRows][kVectorsWide];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (std::size_t p = 0; p < kVectorsWide; ++p) sum[r][p] = Floats{};
  }
  for (std::size_t k = 0; k < d; ++k) {
    Floats b[kVectorsWide];
#pragma GCC unroll 16
    for (std::size_t p = 0; p < kVectorsWide; ++p) {
      b[p] = load_floats(panels + ((p / kParts) * d + k) * kLanes + (p % kParts) * kFloats);
    }
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      const float entry = a[k * dimension_step + r * row_step];
#pragma GCC unroll 16
      for (std::size_t p = 0; p < kVectorsWide; ++p) sum[r][p] = fused(entry, b[p], sum[r][p]);
    }
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (std::size_t p = 0; p < kVectorsWide; ++p) {
      store_clipped(sum[r][p], out + (p / kParts) * panel_step + r * kLanes + (p % kParts) * kFloats);
    }
  }
}

/// Two panels serve half as many rows: fewer loads for the same products.
void of_panels(const float* a, const float* b, std::size_t num_panels, std::size_t d, float* out) {
  constexpr std::size_t kTile = kLanes * kLanes;
  std::size_t p = 0;
  if constexpr (kRowsOfTwo > 0) {
    for (; p + 2 <= num_panels; p += 2) {
      for (std::size_t r = 0; r < kLanes; r += kRowsOfTwo) {
        cosines<kRowsOfTwo, 2>(a + r, 1, kLanes, b + p * kLanes * d, d, out + p * kTile + r * kLanes, kTile);
      }
    }
  }
  for (; p < num_panels; ++p) {
    for (std::size_t r = 0; r < kLanes; r += kTogether) {
      cosines<kTogether, 1>(a + r, 1, kLanes, b + p * kLanes * d, d, out + p * kTile + r * kLanes, kTile);
    }
  }
}

void of_rows(const float* units, std::size_t count, const float* panel, std::size_t d, float* out) {
  std::size_t r = 0;
  for (; r + kTogether <= count; r += kTogether) {
    cosines<kTogether, 1>(units + r * d, d, 1, panel, d, out + r * kLanes, kLanes);
  }
  for (; r + kFew <= count; r += kFew) cosines<kFew, 1>(units + r * d, d, 1, panel, d, out + r * kLanes, kLanes);
  for (; r < count; ++r) cosines<1, 1>(units + r * d, d, 1, panel, d, out + r * kLanes, kLanes);
}

void of_row(const float* unit, const float* panels, std::size_t num_panels, std::size_t d, float* out) {
  std::size_t p = 0;
  for (; p + kPanelsTogether <= num_panels; p += kPanelsTogether) {
    cosines<1, kPanelsTogether>(unit, d, 1, panels + p * kLanes * d, d, out + p * kLanes, kLanes);
  }
  for (; p < num_panels; ++p) cosines<1, 1>(unit, d, 1, panels + p * kLanes * d, d, out + p * kLanes, kLanes);
}

/// Each entry is widened, scaled and rounded once; the loop is plain, so that the compiler chooses the width.
void scaled(const float* row, double factor, std::size_t d, float* out) {
  constexpr float kLeast = 0x1p-60f;
  for (std::size_t k = 0; k < d; ++k) {
    const float entry = static_cast<float>(static_cast<double>(row[k]) * factor);
    out[k] = (entry < 0 ? -entry : entry) < kLeast ? 0.0f : entry;
  }
}

}  // namespace

extern const CosineKernels cosine_kernels;
const CosineKernels cosine_kernels = {of_panels, of_rows, of_row, scaled};

}  // namespace isinglass::ISINGLASS_LEVEL
