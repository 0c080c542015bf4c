// One large dense model from a matrix of integers that lies on the device: measured, packed into rows, and evaluated,
// without its entries leaving the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver.hpp"
#include "large_model.hpp"

namespace isinglass::cuda {

/// Integers of 1, 2 or 4 bytes, (n, n) in C order. Q[i, j] + Q[j, i] is the coupling of two variables.
struct IntegerMatrix {
  const void* entries;
  std::uint32_t n, bytes;
};

/// Of one variable.
struct FoldSummary {
  std::int64_t linear;
  std::int64_t high, low;  // sums of its positive and its negative couplings
  std::int64_t largest;    // of their absolute values
  std::int64_t granule;    // greatest common divisor of the couplings; 0 without any
  std::uint64_t pairs;     // couplings with lower variables
};
struct FoldArgs {
  IntegerMatrix matrix;
  FoldSummary* summaries;
};
/// A warp 32 variables.
extern const Kernel fold_measure;

struct PackArgs {
  IntegerMatrix matrix;
  std::int64_t granule;  // of all coefficients
  void* rows;  // (n, stride) integers of row_bytes: couplings by the granule, zeros on the diagonal and from n on
  std::uint32_t stride, row_bytes;
  double* square_sums;  // as of Qubo, of the couplings alone
};
/// A warp 32 columns, of all `stride`.
extern const Kernel fold_pack;

/// Bytes of shared memory of both: a square of 32 rows, each a word longer, so that columns lie in different banks.
constexpr std::size_t fold_bytes(std::uint32_t bytes) { return std::size_t{32} * 33 * bytes; }

struct ReadEnergiesArgs {
  LargeModel model;
  std::uint32_t row_bytes;
  const std::uint32_t* states;  // words by read
  std::int64_t* energies;
};
/// A block a read.
extern const Kernel read_energies;
inline constexpr unsigned kEnergyThreads = 256;

}  // namespace isinglass::cuda
