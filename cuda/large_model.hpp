// One large dense model on the device: rows of couplings in device memory (in L2 while they fit), and how the fields of
// a replica lie in the shared memory of its block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isinglass::cuda {

struct LargeModel {
  const void* rows;
  const std::int32_t* linear;
  std::uint32_t n;
  std::uint32_t stride;  // entries of a row, a multiple of kChunk

  std::uint32_t words() const { return (n + 31) / 32; }
};

/// Variables whose couplings a thread loads at once. Groups of 32 chunks are a warp's.
inline constexpr std::uint32_t kChunk = 16;
inline constexpr std::uint32_t kGroup = 32 * kChunk;

/// Numbers that one replica's fields take.
constexpr std::size_t field_count(std::size_t n) { return (n + kGroup - 1) / kGroup * kGroup; }
/// Bytes of them, for fields of 32 or (narrow) 16 bits.
constexpr std::size_t field_bytes(std::size_t n, bool narrow) { return (narrow ? 2 : 4) * field_count(n); }

}  // namespace isinglass::cuda
