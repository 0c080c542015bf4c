// Sums of doubles in the fixed order of every packing sum: 16 lanes (index mod 16), added as a binary tree. A half of a
// warp is the 16 lanes, so a warp forms two sums at a time.
#pragma once

#include "kernel.hpp"

namespace isinglass::cuda {

inline constexpr unsigned kLanes = 16;

ISINGLASS_DEVICE unsigned half_index() { return lane_index() / kLanes; }
ISINGLASS_DEVICE unsigned lane_of_half() { return lane_index() % kLanes; }

/// The sum of a half's lanes, for each of them. IEEE addition commutes, so that exchanges give every lane the bits of
/// the tree that halves the lanes: (l0 + l8) .. (l7 + l15), then distances 4, 2 and 1.
ISINGLASS_DEVICE double half_sum(double mine) {
  ISINGLASS_UNROLL
  for (unsigned distance = kLanes / 2; distance > 0; distance /= 2) mine += shuffle_xor(mine, distance);
  return mine;
}

/// The largest number of a warp and the lowest index that has it, for every lane. Indices differ.
struct Largest {
  double value;
  unsigned index;
};
ISINGLASS_DEVICE Largest warp_largest(Largest mine) {
  ISINGLASS_UNROLL
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
    const Largest other{shuffle_xor(mine.value, distance), shuffle_xor(mine.index, distance)};
    if (other.value > mine.value || (other.value == mine.value && other.index < mine.index)) mine = other;
  }
  return mine;
}

}  // namespace isinglass::cuda
