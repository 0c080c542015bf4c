#include "isinglass/cosine_kernels.hpp"

#include "lanes.hpp"

namespace isinglass::ISINGLASS_LEVEL {
namespace {

#if defined(ISINGLASS_LEVEL_scalar)
inline constexpr std::size_t kFloats = 1;
using Floats = float;
#else
inline constexpr std::size_t kFloats = 2 * kWidth;
typedef float Floats __attribute__((vector_size(8 * ISINGLASS_WIDTH)));
#endif
inline constexpr std::size_t kParts = kLanes / kFloats;  // vectors of a panel's width
// As many rows at a time as leave registers for the panel: their sums do not wait for each other.
#if defined(ISINGLASS_LEVEL_v4)
inline constexpr std::size_t kTogether = 16;
#elif defined(ISINGLASS_LEVEL_v3)
inline constexpr std::size_t kTogether = 4;
#else
inline constexpr std::size_t kTogether = 2;
#endif

ISINGLASS_INLINE Floats load_floats(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

/// kRows rows, entry k of row r at a[k * dimension_step + r * row_step], against a panel.
template <std::size_t kRows>
ISINGLASS_INLINE void cosines(const float* a, std::size_t row_step, std::size_t dimension_step, const float* panel,
                              std::size_t d, float* out) {
  Floats sum[kRows][kParts];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (std::size_t p = 0; p < kParts; ++p) sum[r][p] = Floats{};
  }
  for (std::size_t k = 0; k < d; ++k) {
    Floats b[kParts];
#pragma GCC unroll 16
    for (std::size_t p = 0; p < kParts; ++p) b[p] = load_floats(panel + k * kLanes + p * kFloats);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      const float entry = a[k * dimension_step + r * row_step];
#pragma GCC unroll 16
      for (std::size_t p = 0; p < kParts; ++p) sum[r][p] += entry * b[p];
    }
  }
  const Floats zero{}, one = zero + 1.0f;
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (std::size_t p = 0; p < kParts; ++p) {
      const Floats above = sum[r][p] > zero ? sum[r][p] : zero;
      const Floats clipped = above < one ? above : one;
      std::memcpy(out + r * kLanes + p * kFloats, &clipped, sizeof clipped);
    }
  }
}

void of_panels(const float* a, const float* b, std::size_t d, float* out) {
  for (std::size_t r = 0; r < kLanes; r += kTogether) cosines<kTogether>(a + r, 1, kLanes, b, d, out + r * kLanes);
}

void of_rows(const float* units, std::size_t count, const float* panel, std::size_t d, float* out) {
  std::size_t r = 0;
  for (; r + kTogether <= count; r += kTogether) {
    cosines<kTogether>(units + r * d, d, 1, panel, d, out + r * kLanes);
  }
  for (; r < count; ++r) cosines<1>(units + r * d, d, 1, panel, d, out + r * kLanes);
}

}  // namespace

extern const CosineKernels cosine_kernels;
const CosineKernels cosine_kernels = {of_panels, of_rows};

}  // namespace isinglass::ISINGLASS_LEVEL
