// One-flip tabu search: alone, or as the local search of the memetic method.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "isinglass/control.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/random.hpp"
#include "isinglass/reads.hpp"
#include "isinglass/replicas.hpp"
#include "isinglass/tabu_kernels.hpp"

namespace isinglass {

/// A flipped variable is held for low .. low + spread - 1 moves.
struct Tenure {
  std::uint32_t low;
  std::uint32_t spread;
};
/// n / 100 + 7 and ten, less for few variables, so that half of them are always free.
Tenure default_tenure(std::size_t n);

/// Why a model cannot be searched in this layout; empty when it can. `lanes` are of annealing alone.
std::string_view unfit_for_tabu(const Qubo& qubo, Layout layout);
Layout choose_tabu_layout(const Qubo& qubo);

/// Bits of a state, 32 variables a word, the unused ones 0.
using Words = std::vector<std::uint32_t>;
std::size_t words_of(std::size_t n);
void pack(const std::uint8_t* state, std::size_t n, std::uint32_t* words);
void unpack(const std::uint32_t* words, std::size_t n, std::uint8_t* state);

/// Searches on one model, one after another, and the states that they start from and come to. One thread's.
class Tabu {
 public:
  /// Slots 0 .. slots - 1 hold states.
  Tabu(const Qubo& qubo, Layout layout, Tenure tenure, std::size_t slots);

  std::size_t slots() const { return slots_.size(); }
  /// Sets a slot to a state; its energy.
  std::int64_t set(std::size_t slot, const std::uint32_t* words);
  void copy(std::size_t slot, std::size_t other);
  /// Flips variables of a slot; its energy.
  std::int64_t flip(std::size_t slot, const std::vector<std::int32_t>& variables);
  /// Searches from a slot, which becomes the best state seen; its energy. A run that the control stops ends early.
  std::int64_t search(std::size_t slot, SweepKey tenures, std::uint64_t patience, std::uint64_t max_moves,
                      std::int64_t target, Control& control);
  std::int64_t energy(std::size_t slot) const { return slots_[slot].energy; }
  void words(std::size_t slot, std::uint32_t* out) const;
  std::uint64_t moves() const { return moves_; }  // of all searches

 private:
  struct Slot {
    Spot spot;
    std::int64_t energy;
  };
  struct Free {
    void operator()(void* p) const;
  };

  const TabuKernels& kernels_;
  TabuWalk walk_{};
  std::vector<Slot> slots_;
  Spot spare_;
  std::size_t spot_bytes_;
  std::uint64_t slice_;
  std::uint64_t moves_ = 0;
  std::unique_ptr<void, Free> memory_;
};

/// The integer energy that a target in the caller's units stands for: at or below it, `target` is reached but for
/// rounding, which the energies of the caller's numbers decide.
std::int64_t integer_target(const Qubo& qubo, std::optional<double> target);

struct TabuOptions : ReadOptions {
  std::uint64_t patience = 0;   // a read ends after this many moves that did not improve on its best
  std::uint64_t max_moves = 0;  // or after this many
  Tenure tenure{};
  bool until_stopped = false;  // every read starts again at random until the clock ends it, and keeps its best
  bool trace = false;          // per generation, the lowest energy so far
};

/// `flips` of the reads are their moves.
Reads tabu(const Qubo& qubo, const TabuOptions& options, Control& control);

}  // namespace isinglass
