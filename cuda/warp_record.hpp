// What a read that a warp walks is between two launches.
#pragma once

#include <cstdint>

namespace isinglass::cuda {

inline constexpr unsigned kMostBlocks = 8;  // of 32 variables

struct ReadRecord {
  std::uint32_t state[kMostBlocks];
  std::uint32_t best_state[kMostBlocks];
  std::int64_t energy, best;
  std::uint64_t flips;
};

}  // namespace isinglass::cuda
