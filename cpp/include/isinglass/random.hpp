// Random numbers as a hash of a counter, without state: any thread, lane or device may compute any number.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define ISINGLASS_HOST_DEVICE __host__ __device__ __forceinline__
#else
// Inlined by force: kernel objects are compiled per instruction set and must share no weak symbol.
#define ISINGLASS_HOST_DEVICE inline __attribute__((always_inline))
#endif

namespace isinglass {

/// Each use of the hash other than annealing xors its own constant into the seed, so that no two uses share numbers.
namespace stream {
inline constexpr std::uint64_t anneal = 0;
inline constexpr std::uint64_t initial_state = 0x2545f4914f6cdd1dULL;
inline constexpr std::uint64_t probe = 0x589965cc75374cc3ULL;
inline constexpr std::uint64_t exchange = 0x9e6c63d0876a9a99ULL;
inline constexpr std::uint64_t tenure = 0xd1342543de82ef95ULL;
inline constexpr std::uint64_t crossover = 0xaf251af3b0f025b5ULL;
inline constexpr std::uint64_t shuffle = 0xb564ef22ec7aece5ULL;
inline constexpr std::uint64_t shards = 0xda942042e4dd58b5ULL;
inline constexpr std::uint64_t stochastic_greedy = 0xf7c2ebc08f67f2b5ULL;
}  // namespace stream

/// Finaliser of lowbias32 (C. Wellons 2018, "Prospecting for hash functions") with a key folded in.
ISINGLASS_HOST_DEVICE std::uint32_t mix(std::uint32_t x, std::uint32_t key) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= key;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

/// Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
ISINGLASS_HOST_DEVICE std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Key of one read (replica).
struct ReadKey {
  std::uint32_t a, b;
};
/// Key of one sweep of one read.
struct SweepKey {
  std::uint32_t k0, k1;
};

inline constexpr std::uint32_t kVariableStep = 0x9e3779b9U;

ISINGLASS_HOST_DEVICE ReadKey read_key(std::uint64_t seed, std::uint64_t read) {
  const std::uint64_t z = splitmix64(seed ^ splitmix64(read));
  return {static_cast<std::uint32_t>(z), static_cast<std::uint32_t>(z >> 32)};
}

ISINGLASS_HOST_DEVICE SweepKey sweep_key(ReadKey read, std::uint32_t sweep) {
  return {mix(read.a + sweep * 0x85ebca6bU, read.b), mix(read.b + sweep * 0xc2b2ae35U, read.a)};
}

ISINGLASS_HOST_DEVICE std::uint32_t random_bits(SweepKey key, std::uint32_t variable) {
  return mix(key.k0 + variable * kVariableStep, key.k1);
}

ISINGLASS_HOST_DEVICE std::uint32_t random_bits(std::uint64_t seed, std::uint64_t read, std::uint32_t sweep,
                                                std::uint32_t variable) {
  return random_bits(sweep_key(read_key(seed, read), sweep), variable);
}

/// -log2 of a uniform number in (0, 1), from the upper 23 bits of `bits`, in [0, 24]. Only exact conversions and single
/// IEEE products and sums in this order, so every machine gets the same float; error at most 1.3e-4.
ISINGLASS_HOST_DEVICE float neg_log2_uniform(std::uint32_t bits) {
  const float f = static_cast<float>(static_cast<std::int32_t>((bits >> 8) | 1U));
  const std::uint32_t w = std::bit_cast<std::uint32_t>(f);
  const float e = static_cast<float>(static_cast<std::int32_t>(w >> 23));
  const float m = std::bit_cast<float>((w & 0x7fffffU) | 0x3f800000U);
  float p = 0.0821295900f * m - 0.649704845f;
  p = p * m + 2.13411929f;
  p = p * m - 4.08636782f;
  p = p * m + 153.519824f;
  return p - e;
}

/// Metropolis threshold at temperature T, T2 = float(T ln 2): accept a move whose integer cost is at most this.
ISINGLASS_HOST_DEVICE std::int32_t metropolis_threshold(std::uint32_t bits, float t2) {
  return static_cast<std::int32_t>(neg_log2_uniform(bits) * t2);
}

}  // namespace isinglass
