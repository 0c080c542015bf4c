// The couplings of a small QUBO as a warp wants them: lane l holds variables l, l + 32, l + 64 ..., and what a row adds
// to them lies side by side, so that a lane reads its share of a row in one or two vector loads.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "isinglass/qubo.hpp"

namespace isinglass::cuda {

inline constexpr std::size_t kMostVariables = 256;

/// Width of a coupling, and variables of a lane: one kernel each.
struct RowShape {
  unsigned bits;    // 8, 16 or 32
  unsigned blocks;  // of 32 variables: 1, 2, 3, 4, 5 or 8
  friend auto operator<=>(const RowShape&, const RowShape&) = default;

  std::size_t words() const;  // of a lane, in one row
  std::size_t row_bytes() const { return words() * 32 * sizeof(std::uint32_t); }
  /// Bytes of the rows that lie in shared memory while a kernel walks. 32-bit ones stay in device memory.
  std::size_t shared_bytes(std::size_t n) const { return bits == 32 ? 0 : n * row_bytes(); }
};

/// Why a model has no shape; empty when it has.
std::string_view no_shape(const Qubo& qubo);
/// The narrowest shape. Rows that would not fit the `shared_bytes` of a block are 32 bits wide.
RowShape row_shape(const Qubo& qubo, std::size_t shared_bytes);

/// Fills n rows of shape.row_bytes() each.
void pack_rows(const Qubo& qubo, RowShape shape, std::uint32_t* words);

}  // namespace isinglass::cuda
