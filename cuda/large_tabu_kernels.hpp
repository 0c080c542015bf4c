// What the kernel of tabu search on one large dense model is given: a block a search.
#pragma once

#include <algorithm>
#include <bit>

#include "driver.hpp"
#include "isinglass/random.hpp"
#include "large_kernels.hpp"
#include "large_model.hpp"
#include "tabu_rules.hpp"

namespace isinglass::cuda {

/// What the next launch makes of a search. Between two launches its fields stay on the device, so that a search that
/// begins, or goes on, adds the rows of what differs from where the last one of its block stood.
enum class TabuTurn : std::uint32_t { first, begins, goes_on, rests };

/// A search: what it draws random states and tenures with, and its turn, which the kernel moves on.
struct LargeTabuTask {
  std::uint64_t number;
  std::uint32_t generation;
  TabuTurn turn;
};

/// Up to `moves` of every search, a block each.
struct LargeTabuArgs {
  LargeModel model;
  TabuRules rules;
  std::uint64_t seed;
  LargeTabuTask* tasks;
  const std::uint32_t* given;  // words of the start states; nullptr: random ones
  TabuProgress* progress;
  std::uint32_t* states;  // words by search
  std::uint32_t* bests;
  std::uint32_t* holds;  // field_count(n) by search: moves for which a variable is still held
  std::byte* fields;     // field_bytes by search
  std::uint32_t moves;
};

inline constexpr unsigned kLargeTabuThreads = 1024;

/// Threads of a block: one a chunk, while there are so many.
constexpr unsigned tabu_threads(std::size_t n) {
  const std::size_t chunks = std::bit_ceil((n + kChunk - 1) / kChunk);
  return static_cast<unsigned>(std::clamp<std::size_t>(chunks, 32, kLargeTabuThreads));
}

/// Bytes of shared memory: fields, releases, bits of chunks twice, claims of warps.
constexpr std::size_t large_tabu_bytes(std::size_t n, bool narrow) {
  const std::size_t chunks = (n + kChunk - 1) / kChunk;
  return 16 + 2 * 32 * 2 * sizeof(std::int32_t) + field_bytes(n, narrow) + sizeof(std::uint32_t) * field_count(n) +
         2 * sizeof(std::uint16_t) * ((chunks + 7) / 8 * 8);
}

extern const LargeKernels large_tabu_kernels;

}  // namespace isinglass::cuda
