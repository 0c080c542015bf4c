// What the kernel of tabu search on one large dense model is given: a block a read.
#pragma once

#include "driver.hpp"
#include "isinglass/random.hpp"
#include "large_model.hpp"
#include "tabu_rules.hpp"

namespace isinglass::cuda {

/// Up to `moves` of every read.
struct LargeTabuArgs {
  LargeModel model;
  TabuRules rules;
  std::uint64_t seed;
  const std::uint64_t* starts;  // by read: its number, that random states and tenures are drawn with
  const std::uint32_t* given;   // words of the start states; nullptr: random ones
  TabuProgress* progress;
  std::uint32_t* ended;
  std::uint32_t* states;  // words by read
  std::uint32_t* bests;
  std::uint32_t* holds;  // kChunk * chunks by read: moves for which a variable is still held
  std::uint32_t moves;
  bool begins;
};

inline constexpr unsigned kLargeTabuThreads = 1024;

/// Bytes of shared memory: fields, releases, bits of chunks twice, claims of warps.
constexpr std::size_t large_tabu_bytes(std::size_t n) {
  const std::size_t chunks = (n + kChunk - 1) / kChunk;
  return 16 + 2 * 32 * 2 * sizeof(std::int32_t) + sizeof(std::int32_t) * field_count(n) +
         sizeof(std::uint32_t) * kChunk * chunks + 2 * sizeof(std::uint16_t) * ((chunks + 7) / 8 * 8);
}

extern const Kernel large_tabu_8;
extern const Kernel large_tabu_16;
extern const Kernel large_tabu_32;

}  // namespace isinglass::cuda
