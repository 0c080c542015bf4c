// The inner loop of tabu search over selections, compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isinglass/isa.hpp"

namespace isinglass {

inline constexpr std::size_t kEvidenceLanes = 8;  // rows are padded to whole vectors of the widest level

/// One walk over the integer image of an evidence problem; see evidence.hpp for the rows. All arrays of `stride`
/// entries are padded: `until` of the padding is kNever, so that it is never picked.
struct SwapWalk {
  std::size_t n, stride, terms, max_items;
  const std::int64_t* pairs;         // rows of stride
  const std::int64_t* term_rows;     // rows of stride
  const std::int64_t* term_weights;  // (terms,)
  const std::int32_t* term_start;    // (n + 1,)
  const std::int32_t* term_list;
  const std::int64_t* costs;  // (stride,), or nullptr
  std::int64_t budget;

  std::int64_t* field;       // (stride,): what adding the item would gain; for a chosen one, without its own terms
  std::int64_t* until;       // (stride,): the move from which the item may be added again; kNever: it is chosen
  std::int64_t* threshold;   // (stride,), scratch
  std::int64_t* adjusted;    // (stride,), scratch
  std::int64_t* kept_until;  // (stride,): the move from which the item may be removed again
  std::int32_t* count;       // (terms,): chosen items that cover the term
  std::int32_t* chosen;      // (max_items,), in no order
  std::size_t size;
  std::int64_t value, spent;
  std::int64_t move;  // number of the next move

  std::int64_t best;
  std::int32_t* best_chosen;  // (max_items,)
  std::size_t best_size;
  std::int64_t best_move;

  std::uint64_t seed, read;  // tenures are drawn from these and the number of the move
  std::uint32_t add_tenure, drop_tenure, tenure_spread;
};

inline constexpr std::int64_t kNever = INT64_MAX;

struct EvidenceKernels {
  /// Adds or removes an item, whatever the limits.
  void (*add)(SwapWalk&, std::int32_t item);
  /// Moves until `patience` moves have brought no new best, or the move number reaches `last`. True: patience ran out,
  /// or no move is left.
  bool (*walk)(SwapWalk&, std::int64_t patience, std::int64_t last);
};

ISINGLASS_DECLARE_KERNELS(EvidenceKernels, evidence_kernels)

}  // namespace isinglass
