// What a Metropolis move may cost, with the bounds that spare random numbers.
#pragma once

#include "kernel.hpp"

namespace isinglass::cuda {

/// metropolis_threshold of random.hpp, ended at 2^31 - 128.
ISINGLASS_DEVICE std::int32_t cost_limit(std::uint32_t bits, float t2) {
  const float limit = neg_log2_uniform(bits) * t2;
  return static_cast<std::int32_t>(limit < 2147483520.0f ? limit : 2147483520.0f);
}

/// What no cost_limit at this temperature exceeds.
ISINGLASS_DEVICE std::int32_t highest_limit(float t2) {
  const float bound = 24.001f * t2;
  return static_cast<std::int32_t>(bound < 2147483520.0f ? bound : 2147483520.0f);
}

}  // namespace isinglass::cuda
