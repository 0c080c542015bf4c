#include "isinglass/evidence_kernels.hpp"

#include <cstring>

#include "isinglass/random.hpp"

#define ISINGLASS_INLINE static inline __attribute__((always_inline))

namespace isinglass::ISINGLASS_LEVEL {
namespace {

#if defined(ISINGLASS_LEVEL_scalar)
inline constexpr std::size_t kWidth = 1;
using Longs = std::int64_t;
#else
#if defined(ISINGLASS_LEVEL_v4)
#define ISINGLASS_WIDTH 8
#elif defined(ISINGLASS_LEVEL_v3)
#define ISINGLASS_WIDTH 4
#else
#define ISINGLASS_WIDTH 2
#endif
inline constexpr std::size_t kWidth = ISINGLASS_WIDTH;
typedef std::int64_t Longs __attribute__((vector_size(8 * ISINGLASS_WIDTH)));
#endif

constexpr std::int64_t kLowest = INT64_MIN;

ISINGLASS_INLINE Longs load(const std::int64_t* p) {
  Longs v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
ISINGLASS_INLINE void store(std::int64_t* p, Longs v) { std::memcpy(p, &v, sizeof v); }
ISINGLASS_INLINE Longs broadcast(std::int64_t x) { return Longs{} + x; }

ISINGLASS_INLINE void add_row(std::int64_t* to, const std::int64_t* row, std::size_t stride) {
  for (std::size_t k = 0; k < stride; k += kWidth) store(to + k, load(to + k) + load(row + k));
}
ISINGLASS_INLINE void subtract_row(std::int64_t* to, const std::int64_t* row, std::size_t stride) {
  for (std::size_t k = 0; k < stride; k += kWidth) store(to + k, load(to + k) - load(row + k));
}

/// The best gain of each lane, and its code: position of the item that leaves times the stride, plus who comes in. A
/// later gain must be greater, and codes ascend, so that the first of equal moves wins whatever the width.
struct LaneBest {
  Longs gain, code;
};

ISINGLASS_INLINE Longs counting() {
  std::int64_t at[kWidth];
  for (std::size_t l = 0; l < kWidth; ++l) at[l] = static_cast<std::int64_t>(l);
  return load(at);
}

/// What one item leaves open: who comes in gains field + term - pair - loss, if that is more than `need`.
struct Place {
  const std::int64_t* field;
  const std::int64_t* term;  // row of a term that nobody else covers
  const std::int64_t* pair;
  std::int64_t loss, need, room, code;
};

template <bool kCosts, bool kTerm, bool kPair>
ISINGLASS_INLINE void scan(LaneBest& best, const Place& place, const std::int64_t* threshold, const std::int64_t* costs,
                           Longs positions, std::size_t stride) {
  const Longs losses = broadcast(place.loss), needs = broadcast(place.need), rooms = broadcast(place.room);
  Longs codes = positions + place.code;
  for (std::size_t k = 0; k < stride; k += kWidth) {
    Longs gain = load(place.field + k) - losses;
    if constexpr (kTerm) gain += load(place.term + k);
    if constexpr (kPair) gain -= load(place.pair + k);
    Longs bar = load(threshold + k);
    bar = bar > needs ? bar : needs;
    bar = bar > best.gain ? bar : best.gain;
    if constexpr (kCosts) bar = load(costs + k) > rooms ? broadcast(INT64_MAX) : bar;
    const auto better = gain > bar;
    best.code = better ? codes : best.code;
    best.gain = better ? gain : best.gain;
    codes += static_cast<std::int64_t>(kWidth);
  }
}

struct Move {
  std::int64_t gain = kLowest;
  std::int32_t leaves = -1;  // position in `chosen`
  std::int32_t enters = -1;
};

/// A tabu move counts when it would lead to a new best (aspiration): its gain must exceed what is missing to that.
template <bool kCosts>
ISINGLASS_INLINE Move best_move(SwapWalk& w) {
  const std::int64_t need = w.best - w.value;
  const Longs moves = broadcast(w.move), needs = broadcast(need);
  for (std::size_t k = 0; k < w.stride; k += kWidth) {
    const Longs until = load(w.until + k);
    const Longs tabu = until > moves ? needs : broadcast(kLowest);
    store(w.threshold + k, until == broadcast(kNever) ? broadcast(INT64_MAX) : tabu);
  }
  const Longs positions = counting();
  LaneBest best{broadcast(kLowest), broadcast(-1)};
  const auto stride = static_cast<std::int64_t>(w.stride);
  const std::int64_t left = kCosts ? w.budget - w.spent : 0;
  if (w.size < w.max_items) {
    const Place place{w.field, nullptr, nullptr, 0, kLowest, left, 0};
    scan<kCosts, false, false>(best, place, w.threshold, w.costs, positions, w.stride);
  }
  Move removal;
  for (std::size_t s = 0; s < w.size; ++s) {
    const std::int32_t item = w.chosen[s];
    Place place{w.field,
                nullptr,
                w.pairs + static_cast<std::size_t>(item) * w.stride,
                w.field[item],
                w.kept_until[item] > w.move ? need : kLowest,
                kCosts ? left + w.costs[item] : 0,
                (static_cast<std::int64_t>(s) + 1) * stride};
    for (std::int32_t t = w.term_start[item]; t < w.term_start[item + 1]; ++t) {
      const std::int32_t term = w.term_list[t];
      if (w.count[term] != 1) continue;
      place.loss += w.term_weights[term];
      const std::int64_t* row = w.term_rows + static_cast<std::size_t>(term) * w.stride;
      if (place.term != nullptr) {
        for (std::size_t k = 0; k < w.stride; k += kWidth) {
          store(w.adjusted + k, load(place.field + k) + load(place.term + k));
        }
        place.field = w.adjusted;
      }
      place.term = row;
    }
    if (-place.loss > place.need && -place.loss > removal.gain) {
      removal = {-place.loss, static_cast<std::int32_t>(s), -1};
    }
    if (place.term == nullptr) {
      scan<kCosts, false, true>(best, place, w.threshold, w.costs, positions, w.stride);
    } else {
      scan<kCosts, true, true>(best, place, w.threshold, w.costs, positions, w.stride);
    }
  }
  std::int64_t gain[kWidth], code[kWidth];
  std::memcpy(gain, &best.gain, sizeof gain);
  std::memcpy(code, &best.code, sizeof code);
  std::size_t first = 0;
  for (std::size_t l = 1; l < kWidth; ++l) {
    if (gain[l] > gain[first] || (gain[l] == gain[first] && code[l] < code[first])) first = l;
  }
  if (gain[first] == kLowest || removal.gain > gain[first]) return removal;
  return {gain[first], static_cast<std::int32_t>(code[first] / stride) - 1,
          static_cast<std::int32_t>(code[first] % stride)};
}

void add(SwapWalk& w, std::int32_t item) {
  w.value += w.field[item];
  for (std::int32_t t = w.term_start[item]; t < w.term_start[item + 1]; ++t) {
    const std::int32_t term = w.term_list[t];
    if (w.count[term]++ == 0) subtract_row(w.field, w.term_rows + static_cast<std::size_t>(term) * w.stride, w.stride);
  }
  add_row(w.field, w.pairs + static_cast<std::size_t>(item) * w.stride, w.stride);
  w.chosen[w.size++] = item;
  w.until[item] = kNever;
  if (w.costs != nullptr) w.spent += w.costs[item];
}

ISINGLASS_INLINE std::int32_t remove_at(SwapWalk& w, std::size_t position) {
  const std::int32_t item = w.chosen[position];
  w.value -= w.field[item];
  for (std::int32_t t = w.term_start[item]; t < w.term_start[item + 1]; ++t) {
    const std::int32_t term = w.term_list[t];
    if (--w.count[term] > 0) continue;
    w.value -= w.term_weights[term];
    add_row(w.field, w.term_rows + static_cast<std::size_t>(term) * w.stride, w.stride);
  }
  subtract_row(w.field, w.pairs + static_cast<std::size_t>(item) * w.stride, w.stride);
  w.chosen[position] = w.chosen[--w.size];
  if (w.costs != nullptr) w.spent -= w.costs[item];
  return item;
}

bool walk(SwapWalk& w, std::int64_t patience, std::int64_t last) {
  const ReadKey key = read_key(w.seed ^ stream::tenure, w.read);
  for (; w.move < last; ++w.move) {
    if (w.move - w.best_move >= patience) return true;
    const Move move = w.costs != nullptr ? best_move<true>(w) : best_move<false>(w);
    if (move.gain == kLowest) {
      // Every move is tabu. Waiting costs nothing but numbers: the next moves see tenures run out.
      continue;
    }
    const SweepKey numbers = sweep_key(key, static_cast<std::uint32_t>(w.move));
    if (move.leaves >= 0) {
      const std::int32_t item = remove_at(w, static_cast<std::size_t>(move.leaves));
      w.until[item] = w.move + 1 + w.add_tenure + random_bits(numbers, 0) % w.tenure_spread;
    }
    if (move.enters >= 0) {
      add(w, move.enters);
      w.kept_until[move.enters] = w.move + 1 + w.drop_tenure + random_bits(numbers, 1) % w.tenure_spread;
    }
    if (w.value > w.best) {
      w.best = w.value;
      w.best_size = w.size;
      w.best_move = w.move + 1;
      for (std::size_t s = 0; s < w.size; ++s) w.best_chosen[s] = w.chosen[s];
    }
  }
  return w.move - w.best_move >= patience;
}

}  // namespace

extern const EvidenceKernels evidence_kernels;
const EvidenceKernels evidence_kernels = {&add, &walk};

}  // namespace isinglass::ISINGLASS_LEVEL
