// Reads that walk together in one layout: what annealing and tempering are written in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "isinglass/moves.hpp"
#include "isinglass/qubo.hpp"

namespace isinglass {

/// How reads are laid out in vectors; never part of an answer. `lanes`: several reads side by side; `rows`: one read,
/// by whole rows of couplings; the numbers are the bits of a field, then of a coupling in a row.
enum class Layout { lanes32, lanes16, rows32, rows32_of16, rows32_of8, rows16, rows16_of8, sparse };

std::string_view name(Layout layout);
std::span<const Layout> all_layouts();
/// Throws std::invalid_argument for a name that is unknown.
Layout layout_named(std::string_view layout_name);

/// Why a model cannot be walked in this layout; empty when it can.
std::string_view unfit(const Qubo& qubo, Layout layout);
/// The fastest layout for so many reads at once.
Layout choose_layout(const Qubo& qubo, std::size_t reads);
/// Reads that one Replicas of this layout holds.
std::size_t capacity(Layout layout);

/// State bits of a read that no one gave: by the hash, from a stream of its own.
void random_state(std::uint64_t seed, std::uint64_t read, std::size_t n, std::uint8_t* state);

class Replicas {
 public:
  /// Reads first_read .. first_read + count - 1 of a seed; count <= capacity(layout).
  Replicas(const Qubo& qubo, Layout layout, std::uint64_t seed, std::uint64_t first_read, std::size_t count);

  std::size_t size() const { return count_; }
  void begin(const std::uint8_t* states);  // count * n bytes
  void begin_random();
  void sweep(const SweepRun& run);
  /// One sweep, read r at t2[r].
  void sweep_each(std::uint32_t sweep, const float* t2);
  void probe(const SweepRun& run, MoveCounts* counts);  // of lanes32 only
  void quench();
  void end(std::uint8_t* states) const { end(false, states); }
  /// Goes on from the best states that were kept, where those are lower than the ones it stands at.
  void return_to_best();
  std::int64_t energy(std::size_t read) const { return lanes_ ? lane_walk_.energy[read] : row_walk_.energy; }
  std::int64_t best(std::size_t read) const { return lanes_ ? lane_walk_.best[read] : row_walk_.best; }
  std::uint64_t flips(std::size_t read) const { return lanes_ ? lane_walk_.flips[read] : row_walk_.flips; }

 private:
  void end(bool best, std::uint8_t* states) const;

  struct Free {
    void operator()(void* p) const;
  };
  const Qubo& qubo_;
  std::uint64_t seed_, first_read_;
  std::size_t count_;
  bool lanes_;
  const LaneKernels* lane_kernels_ = nullptr;
  const RowKernels* row_kernels_ = nullptr;
  LaneWalk lane_walk_;
  RowWalk row_walk_;
  std::unique_ptr<void, Free> memory_;
};

}  // namespace isinglass
