// The inner loop of one-flip tabu search, compiled once per instruction set.
//
// A move flips the free variable of lowest cost, the lowest index among equals, and holds it for some moves; a held one
// may move when that leads below the best energy so far (F. Glover 1989, "Tabu search, part I"). The cost of every flip
// is kept up to date: a row of couplings is added to the costs in the same pass that looks for the next move.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isinglass/isa.hpp"
#include "isinglass/qubo.hpp"

namespace isinglass {

/// A state: the cost of flipping each variable, and its bits, in the kernel's own form.
struct Spot {
  void* costs;
  void* bits;
};

/// One search. `here` walks; `best` holds the best state whenever the search rests.
struct TabuWalk {
  std::size_t n;
  std::size_t stride;  // entries of a dense row and of a Spot's arrays, a multiple of 64
  const std::int32_t* linear;
  const void* rows;               // dense
  const std::int64_t* row_start;  // or compressed
  const Coupling* couplings;
  Spot here, best;
  void* held;              // as Spot::bits
  void* groups;            // compressed rows: the cached minima of each group of blocks, and which are stale
  std::int32_t* released;  // by move, modulo the ring: the first variable whose hold ends there, or -1
  std::int32_t* next;      // by variable: another one that is released with it, or -1
  std::uint32_t ring_mask;
  std::uint32_t key0, key1;  // of the tenures
  std::uint32_t tenure, tenure_spread;
  std::int64_t energy, best_energy;
  std::uint64_t moves, since;  // since: moves after the best
  std::int32_t pending;        // the variable whose row is still to be added, or -1
  std::int32_t pending_sign;   // 0 or -1: its state before the flip
  std::int32_t unsaved;        // `best` is behind `here`
};

struct TabuRun {
  std::uint64_t until;     // rest at this many moves
  std::uint64_t patience;  // end after this many moves that did not improve on the best
  std::int64_t target;     // end at this energy
};

struct TabuKernels {
  int field_bytes;
  /// Bytes of `groups`.
  std::size_t (*group_bytes)(std::size_t n);
  /// `here` becomes the state of these bits, 32 variables a word.
  void (*begin)(TabuWalk&, const std::uint32_t* words);
  void (*flip)(TabuWalk&, const std::int32_t* variables, std::size_t count);
  /// Nothing is held any more; the best is where it stands.
  void (*start)(TabuWalk&);
  /// True when the search has ended, false when it rests at run.until.
  bool (*search)(TabuWalk&, const TabuRun&);
  void (*words)(const TabuWalk&, const Spot&, std::uint32_t* words);
};

struct TabuTable {
  TabuKernels dense32, dense32_of16, dense32_of8;
  TabuKernels dense16, dense16_of8;
  TabuKernels sparse32, sparse16;
};

ISINGLASS_DECLARE_KERNELS(TabuTable, tabu_table)

}  // namespace isinglass
