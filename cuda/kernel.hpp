// The language that kernels are written in: what a thread may ask and do. nvcc maps it to the device, g++ to the fibers
// of host_emulation.hpp, so the very same kernels run in tests without a GPU. Includes nothing of the toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver.hpp"
#include "isinglass/random.hpp"

#if defined(__CUDACC__)

#define ISINGLASS_DEVICE __device__ __forceinline__
#define ISINGLASS_DEVICE_CALL __device__ __noinline__ /* for what is large and rare: compiled once a file */
#define ISINGLASS_UNROLL _Pragma("unroll")

/// Defines the kernel `name` (declare it in a header as `extern const Kernel name;`). Its body follows in braces and
/// sees one plain struct of arguments, `args`. `threads` is the largest block that it may be launched with.
#define ISINGLASS_KERNEL(name, Args, threads)                                     \
  static __global__ void __launch_bounds__(threads) name##_body(const Args args); \
  const Kernel name{#name, reinterpret_cast<const void*>(&name##_body), threads}; \
  static __global__ void __launch_bounds__(threads) name##_body(const Args args)

namespace isinglass::cuda {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

ISINGLASS_DEVICE unsigned thread_index() { return threadIdx.x; }
ISINGLASS_DEVICE unsigned block_index() { return blockIdx.x; }
ISINGLASS_DEVICE unsigned block_size() { return blockDim.x; }
ISINGLASS_DEVICE unsigned grid_size() { return gridDim.x; }

/// The block's dynamic shared memory, from `offset` bytes on.
template <class T>
ISINGLASS_DEVICE T* shared_arena(std::size_t offset = 0) {
  extern __shared__ __align__(16) unsigned char arena[];
  return reinterpret_cast<T*>(arena + offset);
}

/// The same pointer, said to lead to device memory. What a kernel finds in memory may lead anywhere, for all that nvcc
/// knows, and is read by slower instructions.
template <class T>
ISINGLASS_DEVICE T* in_device_memory(T* at) {
  __builtin_assume(__isGlobal(at));
  return at;
}

/// All threads of the block arrive, and see what the others wrote before.
ISINGLASS_DEVICE void sync_block() { __syncthreads(); }
/// The same for the 32 lanes of a warp. The exchanges below move their values only: they order no memory.
ISINGLASS_DEVICE void sync_warp() { __syncwarp(); }

/// Exchanges of a warp: all 32 lanes take part, always.
ISINGLASS_DEVICE std::uint32_t ballot(bool mine) { return __ballot_sync(kAllLanes, mine); }
ISINGLASS_DEVICE bool any(bool mine) { return __any_sync(kAllLanes, mine) != 0; }
ISINGLASS_DEVICE bool all(bool mine) { return __all_sync(kAllLanes, mine) != 0; }
template <class T>
ISINGLASS_DEVICE T shuffle(T mine, unsigned lane) {
  return __shfl_sync(kAllLanes, mine, static_cast<int>(lane));
}
template <class T>
ISINGLASS_DEVICE T shuffle_xor(T mine, unsigned lanes) {
  return __shfl_xor_sync(kAllLanes, mine, static_cast<int>(lanes));
}

/// The lowest of the 32 numbers, in every lane.
ISINGLASS_DEVICE std::int32_t warp_lowest(std::int32_t mine) { return __reduce_min_sync(kAllLanes, mine); }

template <class T>
ISINGLASS_DEVICE T atomic_add(T* at, T value) {
  return atomicAdd(at, value);
}
ISINGLASS_DEVICE std::int64_t atomic_add(std::int64_t* at, std::int64_t value) {
  return static_cast<std::int64_t>(
      atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value)));
}
ISINGLASS_DEVICE void atomic_min(std::int64_t* at, std::int64_t value) {
  atomicMin(reinterpret_cast<long long*>(at), static_cast<long long>(value));
}

/// Index of the lowest bit that is set; the word is not 0.
ISINGLASS_DEVICE unsigned lowest_bit(std::uint32_t word) {
  return static_cast<unsigned>(__ffs(static_cast<int>(word)) - 1);
}
ISINGLASS_DEVICE unsigned bit_count(std::uint32_t word) { return static_cast<unsigned>(__popc(word)); }

/// sum + the products of the four bytes (two halves) of `row` with the four (lower two) bytes of `factors`, all signed.
ISINGLASS_DEVICE std::int32_t dot4(std::uint32_t row, std::uint32_t factors, std::int32_t sum) {
  return __dp4a(static_cast<int>(row), static_cast<int>(factors), sum);
}
ISINGLASS_DEVICE std::int32_t dot2(std::uint32_t row, std::uint32_t factors, std::int32_t sum) {
  return __dp2a_lo(static_cast<int>(row), static_cast<int>(factors), sum);
}

/// The lower (upper) two bytes of a word as two halves, all signed; and sums of halves, none of which leaves 16 bits.
ISINGLASS_DEVICE std::uint32_t halves_of_bytes(std::uint32_t word, bool upper) {
  std::uint32_t halves;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(halves) : "r"(word), "r"(upper ? 0xb3a2U : 0x9180U));  // 8: the sign of a byte
  return halves;
}
ISINGLASS_DEVICE std::uint32_t add_halves(std::uint32_t a, std::uint32_t b) { return __vadd2(a, b); }
ISINGLASS_DEVICE std::uint32_t subtract_halves(std::uint32_t a, std::uint32_t b) { return __vsub2(a, b); }

/// a * b + c, rounded once: where one rounding is part of the definition (elsewhere contraction is off).
ISINGLASS_DEVICE float fused_multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }

}  // namespace isinglass::cuda

#else
#include "host_emulation.hpp"
#endif

namespace isinglass::cuda {

/// Entries of the arena, by the place of the first: a pointer that a kernel keeps in memory might lead anywhere.
template <class T>
struct SharedArray {
  std::uint32_t offset;  // bytes
  ISINGLASS_DEVICE T& operator[](unsigned i) const { return shared_arena<T>(offset)[i]; }
};

ISINGLASS_DEVICE unsigned lane_index() { return thread_index() % kWarp; }
ISINGLASS_DEVICE unsigned warp_index() { return thread_index() / kWarp; }
ISINGLASS_DEVICE unsigned warps_in_block() { return block_size() / kWarp; }

/// Integer reductions of a warp; every lane gets the result. (Sums of floats need a fixed order: write it out.)
template <class T>
ISINGLASS_DEVICE T warp_sum(T mine) {
  ISINGLASS_UNROLL
  for (unsigned lanes = kWarp / 2; lanes > 0; lanes /= 2) mine += shuffle_xor(mine, lanes);
  return mine;
}
template <class T>
ISINGLASS_DEVICE T warp_min(T mine) {
  ISINGLASS_UNROLL
  for (unsigned lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const T other = shuffle_xor(mine, lanes);
    mine = other < mine ? other : mine;
  }
  return mine;
}

/// Copies to shared memory, 16 bytes a thread; both ends 16-byte aligned, `bytes` a multiple of 16. The caller syncs.
ISINGLASS_DEVICE void copy_to_shared(void* to, const void* from, std::size_t bytes) {
  struct alignas(16) Chunk {
    std::uint32_t words[4];
  };
  auto* const target = static_cast<Chunk*>(to);
  const auto* const source = in_device_memory(static_cast<const Chunk*>(from));
  for (std::size_t k = thread_index(); k < bytes / sizeof(Chunk); k += block_size()) target[k] = source[k];
}

}  // namespace isinglass::cuda
