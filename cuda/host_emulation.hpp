// Kernels under g++: every thread of a block is a fiber, blocks run one after another. What kernel.hpp offers on the
// device, with the same names. It proves the logic of kernels (the bits, races, deadlocks), not their speed, and it
// knows no memory model weaker than the host's.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#define ISINGLASS_DEVICE inline __attribute__((always_inline))
#define ISINGLASS_DEVICE_CALL __attribute__((noinline))
#define ISINGLASS_UNROLL

#define ISINGLASS_KERNEL(name, Args, threads)                                                  \
  static void name##_body(const Args& args);                                                   \
  static void name##_entry(const void* args) { name##_body(*static_cast<const Args*>(args)); } \
  const Kernel name{#name, reinterpret_cast<const void*>(&name##_entry), threads};             \
  static void name##_body([[maybe_unused]] const Args& args)

namespace isinglass::cuda {

inline constexpr unsigned kWarp = 32;

namespace emulation {

/// Where in a kernel a barrier stands.
struct Site {
  std::string file;
  unsigned line = 0;
  friend bool operator==(const Site&, const Site&) = default;
};

struct Settings {
  std::uint64_t order_seed = 0;  // 0: blocks and threads in ascending order; else shuffled at every turn
  unsigned char pattern = 0xa5;  // what shared memory holds before a block, and device memory when it is allocated
  Site skipped{};                // a barrier that threads run through, to prove that a test would notice
  std::size_t most_steps = std::numeric_limits<std::size_t>::max();  // of a block, from barrier to barrier of a thread
};
Settings& settings();

/// Barriers that kernels have reached since the last call, in the order of their first use.
std::vector<Site> take_barriers();

/// The most steps that a block took since the last call; the order of threads does not matter to it.
std::size_t take_most_steps();

/// A mistake of a kernel: a deadlock, a barrier in divergent code, a warp that is not whole, a race.
struct Error : std::logic_error {
  using std::logic_error::logic_error;
};

/// Runs a kernel to its end.
void run(const char* name, void (*entry)(const void*), const void* args, unsigned blocks, unsigned threads,
         std::size_t shared_bytes);

/// Ends the running kernel in an Error; false where none is running. A sanitizer may call it in the middle of a report.
bool give_up(const char* mistake);

/// What the running fiber may know of itself.
struct Here {
  unsigned thread, block, threads, blocks;
  std::byte* arena;
};
extern thread_local Here here;

void wait_for_block(const std::source_location& site);
void wait_for_warp(const std::source_location& site);
std::uint64_t exchange(std::uint64_t mine, unsigned lane, const std::source_location& site);
std::uint32_t vote(bool mine, const std::source_location& site);
std::int32_t lowest(std::int32_t mine, const std::source_location& site);

}  // namespace emulation

ISINGLASS_DEVICE unsigned thread_index() { return emulation::here.thread; }
ISINGLASS_DEVICE unsigned block_index() { return emulation::here.block; }
ISINGLASS_DEVICE unsigned block_size() { return emulation::here.threads; }
ISINGLASS_DEVICE unsigned grid_size() { return emulation::here.blocks; }

template <class T>
ISINGLASS_DEVICE T* shared_arena(std::size_t offset = 0) {
  return reinterpret_cast<T*>(emulation::here.arena + offset);
}

template <class T>
ISINGLASS_DEVICE T* in_device_memory(T* at) {
  return at;
}

ISINGLASS_DEVICE void sync_block(std::source_location site = std::source_location::current()) {
  emulation::wait_for_block(site);
}
ISINGLASS_DEVICE void sync_warp(std::source_location site = std::source_location::current()) {
  emulation::wait_for_warp(site);
}

ISINGLASS_DEVICE std::uint32_t ballot(bool mine, std::source_location site = std::source_location::current()) {
  return emulation::vote(mine, site);
}
ISINGLASS_DEVICE bool any(bool mine, std::source_location site = std::source_location::current()) {
  return emulation::vote(mine, site) != 0;
}
ISINGLASS_DEVICE bool all(bool mine, std::source_location site = std::source_location::current()) {
  return emulation::vote(!mine, site) == 0;
}
template <class T>
ISINGLASS_DEVICE T shuffle(T mine, unsigned lane, std::source_location site = std::source_location::current()) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &mine, sizeof mine);
  bits = emulation::exchange(bits, lane % kWarp, site);
  std::memcpy(&mine, &bits, sizeof mine);
  return mine;
}
template <class T>
ISINGLASS_DEVICE T shuffle_xor(T mine, unsigned lanes, std::source_location site = std::source_location::current()) {
  return cuda::shuffle(mine, thread_index() % kWarp ^ lanes, site);  // not std::shuffle, by way of the site
}

ISINGLASS_DEVICE std::int32_t warp_lowest(std::int32_t mine,
                                          std::source_location site = std::source_location::current()) {
  return emulation::lowest(mine, site);
}

template <class T>
ISINGLASS_DEVICE T atomic_add(T* at, T value) {
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
ISINGLASS_DEVICE void atomic_min(std::int64_t* at, std::int64_t value) {
  std::int64_t now = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < now && !__atomic_compare_exchange_n(at, &now, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

ISINGLASS_DEVICE unsigned lowest_bit(std::uint32_t word) { return static_cast<unsigned>(std::countr_zero(word)); }
ISINGLASS_DEVICE unsigned bit_count(std::uint32_t word) { return static_cast<unsigned>(std::popcount(word)); }

ISINGLASS_DEVICE std::int32_t dot4(std::uint32_t row, std::uint32_t factors, std::int32_t sum) {
  for (unsigned k = 0; k < 4; ++k) {
    sum += static_cast<std::int8_t>(row >> 8 * k) * static_cast<std::int8_t>(factors >> 8 * k);
  }
  return sum;
}
ISINGLASS_DEVICE std::int32_t dot2(std::uint32_t row, std::uint32_t factors, std::int32_t sum) {
  for (unsigned k = 0; k < 2; ++k) {
    sum += static_cast<std::int16_t>(row >> 16 * k) * static_cast<std::int8_t>(factors >> 8 * k);
  }
  return sum;
}

ISINGLASS_DEVICE std::uint32_t halves_of_bytes(std::uint32_t word, bool upper) {
  if (upper) word >>= 16;
  const auto low = static_cast<std::uint16_t>(static_cast<std::int8_t>(word));
  const auto high = static_cast<std::uint16_t>(static_cast<std::int8_t>(word >> 8));
  return static_cast<std::uint32_t>(high) << 16 | low;
}
ISINGLASS_DEVICE std::uint32_t add_halves(std::uint32_t a, std::uint32_t b) {
  return ((a & 0xffff0000U) + (b & 0xffff0000U)) | ((a + b) & 0xffffU);
}
ISINGLASS_DEVICE std::uint32_t subtract_halves(std::uint32_t a, std::uint32_t b) {
  return ((a & 0xffff0000U) - (b & 0xffff0000U)) | ((a - b) & 0xffffU);
}

ISINGLASS_DEVICE float fused_multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

}  // namespace isinglass::cuda
