// Swap search of evidence problems on the device: a warp a problem.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver.hpp"
#include "isinglass/random.hpp"

namespace isinglass::cuda {

/// One problem's integer image, its arrays on the device, and how to search it; see isinglass/evidence.hpp.
struct SwapQuery {
  std::uint32_t n, stride, terms, max_items;  // stride: entries of a row
  std::uint32_t add_tenure, drop_tenure, tenure_spread;
  std::uint32_t num_reads, agreement;  // agreement: reads of one best value that may end it; 0: all are made
  std::int64_t patience;
  std::uint64_t seed;
  std::int64_t budget;

  const std::int64_t* linear;        // (n,)
  const std::int64_t* pairs;         // (n, stride)
  const std::int64_t* term_rows;     // (terms, stride)
  const std::int64_t* term_weights;  // (terms,)
  const std::int32_t* term_start;    // (n + 1,)
  const std::int32_t* term_list;
  const std::int64_t* costs;  // (n,), or nullptr
};

/// Where a search stands between two launches, and its answer.
struct SwapState {
  std::int64_t best;  // of the reads that ended
  std::int64_t value, spent, move, walk_best, walk_best_move;
  std::uint64_t moves;  // of the reads that ended
  std::uint32_t read, reached;
  std::uint32_t size, walk_best_size;
  std::uint32_t selected;  // items of the best selection so far
  std::uint32_t stage;     // kNew, kWalking or kDone
};
inline constexpr std::uint32_t kNew = 0, kWalking = 1, kDone = 2;

struct SwapArgs {
  const SwapQuery* queries;
  SwapState* states;        // one a query
  std::int32_t* selection;  // (queries, most_items)
  std::int64_t* rows;       // (queries, 3, stride): field, until and kept_until between two launches
  std::uint16_t* items;     // (queries, 2, most_items): chosen and walk's best
  std::uint32_t stride, most_items;
  std::uint32_t most_moves;  // of this launch, by each search
  bool first;                // launch: states are not there yet
  bool rows_in_shared;
};

extern const Kernel evidence_swap;

/// Shared memory of one search.
struct SwapArena {
  std::size_t field, until, kept_until, count, chosen, walk_best, order, pairs, bytes;

  static ISINGLASS_HOST_DEVICE SwapArena of(const SwapQuery& q, bool rows_in_shared) {
    SwapArena arena{};
    const auto place = [&](std::size_t bytes) {
      const std::size_t at = arena.bytes;
      arena.bytes += (bytes + 15) / 16 * 16;
      return at;
    };
    const std::size_t n = q.n;
    arena.field = place(8 * n);
    arena.until = place(8 * n);
    arena.kept_until = place(8 * n);
    arena.count = place(std::size_t{2} * 32 * q.terms);
    arena.chosen = place(std::size_t{2} * 32 * q.max_items);
    arena.walk_best = place(std::size_t{2} * q.max_items);
    arena.order = place(2 * n);
    arena.pairs = place(rows_in_shared ? 8 * n * n : 0);
    return arena;
  }
};

}  // namespace isinglass::cuda
