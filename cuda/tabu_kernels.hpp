// What the kernels of tabu batches are given.
#pragma once

#include "driver.hpp"
#include "small_models.hpp"
#include "warp_tabu.hpp"

namespace isinglass::cuda {

/// Reads of one model that a block's warps take in turn.
struct TabuTask {
  std::uint32_t model;
  std::uint16_t reads;
  std::uint16_t given;  // 1: their start states are
  std::size_t first_read;
  std::size_t first_word;  // of the first read, of words; of holds 32 times that
};

/// One launch of `moves` for every read, of the first round (`given` states count) or a later one.
struct TabuArgs {
  const TabuTask* tasks;
  const SmallModel* models;
  const TabuRules* rules;  // by model, as
  const std::uint64_t* seeds;
  const std::uint64_t* starts;  // by read: its number, that random states and tenures are drawn with
  const std::uint32_t* given;   // nullptr after the first round
  TabuProgress* progress;
  std::uint32_t* ended;
  std::uint32_t* here;
  std::uint32_t* best;
  std::uint32_t* holds;
  std::uint64_t moves;
  bool resume;
};

/// By index_of a shape; blocks of up to kTabuWarps warps.
inline constexpr unsigned kTabuWarps = 8;
extern const Kernel* const tabu_kernels[kRowBytes.size() * kSlots.size()];

}  // namespace isinglass::cuda
