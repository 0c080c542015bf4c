// The inner loops of QUBO search, compiled once per instruction set: sweeps of single flips.
//
// A sweep visits the variables in ascending order and flips one when its cost is at most the Metropolis threshold of
// its own random number. Fields f_i = a_i + sum_j w_ij x_j are kept up to date, so a flip of i costs f_i (0 to 1) or
// -f_i. There are two layouts: several reads in the lanes of a vector, one variable at a time; or one read, a vector of
// variables at a time. Both make the same decisions from the same numbers, so a read ends in the same bits in either.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isinglass/isa.hpp"
#include "isinglass/qubo.hpp"

namespace isinglass {

inline constexpr int kMaxLanes = 32;

/// A run of sweeps: t2[k] is float(T ln 2) of sweep `first` + k. `trace[k]`, when given, becomes the lowest energy of
/// any read at the end of that sweep, if lower than it was.
struct SweepRun {
  std::uint32_t first;
  std::uint32_t count;
  const float* t2;
  std::int64_t* trace;
  bool keep_best;  // the state of the lowest energy at the end of a sweep, the first such one
};

/// Moves of a probe, summed over reads: per sweep the accepted moves that change the energy, and those that raise it.
struct MoveCounts {
  std::uint64_t changing;
  std::uint64_t uphill;
};

/// Reads side by side in the lanes of a vector; couplings by compressed rows.
struct LaneWalk {
  std::size_t n;
  const std::int32_t* linear;
  const std::int64_t* row_start;
  const LaneCoupling* couplings;  // offsets by field_bytes * lanes
  std::int32_t worst_field;
  std::uint32_t live;  // bit per lane that holds a read
  std::uint32_t key_a[kMaxLanes];
  std::uint32_t key_b[kMaxLanes];
  std::int64_t energy[kMaxLanes];
  std::int64_t best[kMaxLanes];
  std::uint64_t flips[kMaxLanes];
  float lane_t2[kMaxLanes];  // of `sweep_each`
  void* fields;              // field_bytes * lanes * n, 64-byte aligned
  void* bits;                // the same size, as is
  void* best_bits;
};

/// One read; whole rows of couplings, or compressed ones.
struct RowWalk {
  std::size_t n;
  std::size_t stride;  // entries of a dense row, and of `fields`
  const std::int32_t* linear;
  const void* rows;
  const std::int64_t* row_start;
  const Coupling* couplings;
  std::uint32_t key_a, key_b;
  std::int64_t energy, best;
  std::uint64_t flips;
  void* fields;  // field_bytes * stride, 64-byte aligned
  void* bits;    // the same size, as is
  void* best_bits;
};

struct LaneKernels {
  int lanes;
  int field_bytes;
  /// From the states of the live lanes, n bytes each, one after another. Leaves `flips` as they are.
  void (*begin)(LaneWalk&, const std::uint8_t* states);
  void (*sweep)(LaneWalk&, const SweepRun&);
  /// One sweep, every lane at its own temperature; keeps the best states.
  void (*sweep_each)(LaneWalk&, std::uint32_t sweep);
  /// Flips what lowers the energy, in ascending order, until nothing does.
  void (*quench)(LaneWalk&);
  /// The states, or where `best_bits` were kept and are lower, the best ones. Leaves the walk as it is.
  void (*end)(const LaneWalk&, bool best, std::uint8_t* states);
};

struct RowKernels {
  int field_bytes;
  void (*begin)(RowWalk&, const std::uint8_t* state);
  void (*sweep)(RowWalk&, const SweepRun&);
  void (*quench)(RowWalk&);
  void (*end)(const RowWalk&, bool best, std::uint8_t* state);
};

struct MoveKernels {
  LaneKernels lanes32, lanes16;
  RowKernels rows32, rows32_of16, rows32_of8;  // 32-bit fields
  RowKernels rows16, rows16_of8;               // 16-bit fields
  RowKernels sparse;                           // 32-bit fields, compressed rows
  /// Sweeps of lanes32 that count moves: counts[k] of sweep run.first + k is added to.
  void (*probe)(LaneWalk&, const SweepRun&, MoveCounts* counts);
};

ISINGLASS_DECLARE_KERNELS(MoveKernels, move_kernels)

}  // namespace isinglass
