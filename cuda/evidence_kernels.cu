// The swap search of cpp/src/evidence.cpp and its kernels, move by move.
//
// No entry of shared memory is read by another lane than the one that writes it. Entry k of a row belongs to lane k mod
// 32; others ask by an exchange. What every lane needs at every move, chosen items and how often a term is covered,
// every lane has a copy of. So there is nothing to wait for, but for what the last launch left.
#include "evidence_kernels.hpp"
#include "kernel.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::int64_t kLowest = INT64_MIN, kNever = INT64_MAX;
constexpr std::uint32_t kNone = 0xffffffffU;

struct Move {
  std::int64_t gain = kLowest;
  std::uint32_t leaves = kNone;  // position among the chosen
  std::uint32_t enters = kNone;
};

class Search {
 public:
  ISINGLASS_DEVICE Search(const SwapArgs& args, const SwapQuery& query, const SwapArena& arena)
      : args_(args),
        q_(query),
        field_(shared_arena<std::int64_t>(arena.field)),
        until_(shared_arena<std::int64_t>(arena.until)),
        kept_until_(shared_arena<std::int64_t>(arena.kept_until)),
        count_(shared_arena<std::uint16_t>(arena.count) + lane_index()),
        chosen_(shared_arena<std::uint16_t>(arena.chosen) + lane_index()),
        walk_best_(shared_arena<std::uint16_t>(arena.walk_best)),
        order_(shared_arena<std::uint16_t>(arena.order)),
        pairs_(query.pairs),
        pair_stride_(query.stride),
        s_(args.first ? SwapState{} : args.states[block_index()]) {
    if (args.rows_in_shared) {
      auto* const rows = shared_arena<std::int64_t>(arena.pairs);
      for (std::uint32_t i = 0; i < q_.n; ++i) {
        for_own([&](std::uint32_t k) { rows[i * q_.n + k] = q_.pairs[std::size_t{i} * q_.stride + k]; });
      }
      pairs_ = rows;
      pair_stride_ = q_.n;
    }
  }

  ISINGLASS_DEVICE void go_on() {
    std::uint32_t moves_left = args_.most_moves;
    if (s_.stage == kWalking) restore();
    while (s_.stage != kDone) {
      if (s_.stage == kNew) {
        begin();
        s_.stage = kWalking;
      }
      if (!walk(moves_left)) break;
      end_read();
    }
    sync_warp();  // before any lane overwrites it, all have read where the search stood
    if (s_.stage == kWalking) save();
    if (lane_index() == 0) args_.states[block_index()] = s_;
  }

 private:
  template <class Body>
  ISINGLASS_DEVICE void for_own(Body body) {
    for (std::uint32_t k = lane_index(); k < q_.n; k += kWarp) body(k);
  }
  ISINGLASS_DEVICE static bool owns(std::uint32_t k) { return lane_index() == k % kWarp; }
  ISINGLASS_DEVICE static std::int64_t from_owner(const std::int64_t* row, std::uint32_t k) {
    const std::int64_t mine = owns(k) ? row[k] : 0;
    return shuffle(mine, k % kWarp);
  }
  ISINGLASS_DEVICE std::uint16_t& chosen(std::uint32_t s) { return chosen_[s * kWarp]; }
  ISINGLASS_DEVICE std::uint16_t& count(std::uint32_t term) { return count_[term * kWarp]; }
  ISINGLASS_DEVICE const std::int64_t* pairs(std::uint32_t item) const {
    return pairs_ + std::size_t{item} * pair_stride_;
  }
  ISINGLASS_DEVICE const std::int64_t* term_row(std::uint32_t term) const {
    return q_.term_rows + std::size_t{term} * q_.stride;
  }
  template <class Body>
  ISINGLASS_DEVICE void for_terms(std::uint32_t item, Body body) {
    for (std::int32_t t = q_.term_start[item]; t < q_.term_start[item + 1]; ++t) {
      body(static_cast<std::uint32_t>(q_.term_list[t]));
    }
  }

  /// A read: the first from nothing, the others from as many different items as are allowed and fit.
  ISINGLASS_DEVICE void begin() {
    for_own([&](std::uint32_t k) {
      std::int64_t sum = q_.linear[k];
      for (std::uint32_t t = 0; t < q_.terms; ++t) sum += term_row(t)[k];
      field_[k] = sum;
      until_[k] = kept_until_[k] = 0;
    });
    for (std::uint32_t t = 0; t < q_.terms; ++t) count(t) = 0;
    s_.size = s_.walk_best_size = 0;
    s_.value = s_.walk_best = s_.spent = s_.move = s_.walk_best_move = 0;
    if (s_.read == 0) return;
    if (lane_index() == 0) {
      for (std::uint32_t k = 0; k < q_.n; ++k) order_[k] = static_cast<std::uint16_t>(k);
    }
    const SweepKey key = sweep_key(read_key(q_.seed ^ stream::initial_state, s_.read), 0);
    for (std::uint32_t k = 0; k < q_.n && s_.size < q_.max_items; ++k) {
      std::uint32_t item = 0;
      if (lane_index() == 0) {
        const std::uint32_t pick = k + random_bits(key, k) % (q_.n - k);
        item = order_[pick];
        order_[pick] = order_[k];
      }
      item = shuffle(item, 0);
      if (q_.costs != nullptr && s_.spent + q_.costs[item] > q_.budget) continue;
      add(item);
    }
    if (s_.value > s_.walk_best) keep_as_best(0);
  }

  ISINGLASS_DEVICE void keep_as_best(std::int64_t move) {
    s_.walk_best = s_.value;
    s_.walk_best_size = s_.size;
    s_.walk_best_move = move;
    for (std::uint32_t s = lane_index(); s < s_.size; s += kWarp) walk_best_[s] = chosen(s);
  }

  ISINGLASS_DEVICE void add(std::uint32_t item) {
    s_.value += from_owner(field_, item);
    for_terms(item, [&](std::uint32_t term) {
      if (count(term)++ == 0) for_own([&](std::uint32_t k) { field_[k] -= term_row(term)[k]; });
    });
    for_own([&](std::uint32_t k) { field_[k] += pairs(item)[k]; });
    chosen(s_.size++) = static_cast<std::uint16_t>(item);
    if (owns(item)) until_[item] = kNever;
    if (q_.costs != nullptr) s_.spent += q_.costs[item];
  }

  ISINGLASS_DEVICE std::uint32_t remove_at(std::uint32_t position) {
    const std::uint32_t item = chosen(position);
    s_.value -= from_owner(field_, item);
    for_terms(item, [&](std::uint32_t term) {
      if (--count(term) > 0) return;
      s_.value -= q_.term_weights[term];
      for_own([&](std::uint32_t k) { field_[k] += term_row(term)[k]; });
    });
    for_own([&](std::uint32_t k) { field_[k] -= pairs(item)[k]; });
    chosen(position) = chosen(--s_.size);
    if (q_.costs != nullptr) s_.spent -= q_.costs[item];
    return item;
  }

  /// The best of all additions, removals and exchanges; of equal ones the first, by the position of who leaves and then
  /// by who enters. A tabu move counts when it would lead to a new best: its gain must exceed what is missing to that.
  ISINGLASS_DEVICE Move best_move() {
    const std::int64_t need = s_.walk_best - s_.value;
    const std::int64_t room = q_.costs != nullptr ? q_.budget - s_.spent : 0;
    std::int64_t best = kLowest;
    std::uint32_t code = kNone;
    const auto offer = [&](std::int64_t gain, std::int64_t bar, std::int64_t free, std::uint32_t k,
                           std::uint32_t position) {
      if (until_[k] == kNever) return;
      if (until_[k] > s_.move && need > bar) bar = need;
      if (best > bar) bar = best;
      if (q_.costs != nullptr && q_.costs[k] > free) return;
      if (gain > bar) {
        best = gain;
        code = position * q_.stride + k;
      }
    };
    if (s_.size < q_.max_items) {
      for_own([&](std::uint32_t k) { offer(field_[k], kLowest, room, k, 0); });
    }
    Move removal;
    for (std::uint32_t s = 0; s < s_.size; ++s) {
      const std::uint32_t item = chosen(s);
      std::int64_t loss = from_owner(field_, item);
      for_terms(item, [&](std::uint32_t term) {
        if (count(term) == 1) loss += q_.term_weights[term];
      });
      const std::int64_t bar = from_owner(kept_until_, item) > s_.move ? need : kLowest;
      if (-loss > bar && -loss > removal.gain) removal = {-loss, s, kNone};
      const std::int64_t free = q_.costs != nullptr ? room + q_.costs[item] : 0;
      for_own([&](std::uint32_t k) {
        std::int64_t gain = field_[k] - loss - pairs(item)[k];
        for_terms(item, [&](std::uint32_t term) {
          if (count(term) == 1) gain += term_row(term)[k];
        });
        offer(gain, bar, free, k, s + 1);
      });
    }
    ISINGLASS_UNROLL
    for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
      const std::int64_t other = shuffle_xor(best, distance);
      const std::uint32_t other_code = shuffle_xor(code, distance);
      if (other > best || (other == best && other_code < code)) {
        best = other;
        code = other_code;
      }
    }
    if (best == kLowest || removal.gain > best) return removal;
    return {best, code / q_.stride - 1, code % q_.stride};  // nobody leaves: kNone
  }

  /// Moves until patience is at its end: true; or until no more are allowed in this launch: false.
  ISINGLASS_DEVICE bool walk(std::uint32_t& moves_left) {
    const ReadKey key = read_key(q_.seed ^ stream::tenure, s_.read);
    for (; s_.move - s_.walk_best_move < q_.patience; ++s_.move, --moves_left) {
      if (moves_left == 0) return false;
      const Move move = best_move();
      if (move.gain == kLowest) continue;  // every move is tabu: the next ones see tenures run out
      const SweepKey numbers = sweep_key(key, static_cast<std::uint32_t>(s_.move));
      if (move.leaves != kNone) {
        const std::uint32_t item = remove_at(move.leaves);
        if (owns(item)) until_[item] = s_.move + 1 + q_.add_tenure + random_bits(numbers, 0) % q_.tenure_spread;
      }
      if (move.enters != kNone) {
        add(move.enters);
        if (owns(move.enters)) {
          kept_until_[move.enters] = s_.move + 1 + q_.drop_tenure + random_bits(numbers, 1) % q_.tenure_spread;
        }
      }
      if (s_.value > s_.walk_best) keep_as_best(s_.move + 1);
    }
    return true;
  }

  ISINGLASS_DEVICE bool improves() const { return s_.read == 0 || s_.walk_best > s_.best; }

  ISINGLASS_DEVICE void select() {
    s_.selected = s_.walk_best_size;
    for (std::uint32_t s = lane_index(); s < s_.selected; s += kWarp) {
      args_.selection[std::size_t{block_index()} * args_.most_items + s] = walk_best_[s];
    }
  }

  ISINGLASS_DEVICE void end_read() {
    s_.moves += static_cast<std::uint64_t>(s_.move);
    if (improves()) {
      select();
      s_.best = s_.walk_best;
      s_.reached = 1;
    } else if (s_.walk_best == s_.best) {
      ++s_.reached;
    }
    ++s_.read;
    // Where some reads failed to reach the best value, more must agree.
    const bool agreed = q_.agreement > 0 && s_.reached >= q_.agreement &&
                        (std::uint64_t{s_.reached} - q_.agreement) * 4 >= s_.read - s_.reached;
    s_.stage = s_.read == q_.num_reads || agreed ? kDone : kNew;
  }

  /// Shared memory to the device's and back. A search that is stopped answers with the best it has.
  ISINGLASS_DEVICE void save() {
    if (improves()) select();
    std::int64_t* const rows = args_.rows + std::size_t{block_index()} * 3 * args_.stride;
    for_own([&](std::uint32_t k) {
      rows[k] = field_[k];
      rows[args_.stride + k] = until_[k];
      rows[2 * args_.stride + k] = kept_until_[k];
    });
    std::uint16_t* const items = args_.items + std::size_t{block_index()} * 2 * args_.most_items;
    for (std::uint32_t s = lane_index(); s < s_.size; s += kWarp) items[s] = chosen(s);
    for (std::uint32_t s = lane_index(); s < s_.walk_best_size; s += kWarp) items[args_.most_items + s] = walk_best_[s];
  }
  ISINGLASS_DEVICE void restore() {
    const std::int64_t* const rows = args_.rows + std::size_t{block_index()} * 3 * args_.stride;
    for_own([&](std::uint32_t k) {
      field_[k] = rows[k];
      until_[k] = rows[args_.stride + k];
      kept_until_[k] = rows[2 * args_.stride + k];
    });
    const std::uint16_t* const items = args_.items + std::size_t{block_index()} * 2 * args_.most_items;
    for (std::uint32_t s = lane_index(); s < s_.walk_best_size; s += kWarp) walk_best_[s] = items[args_.most_items + s];
    for (std::uint32_t t = 0; t < q_.terms; ++t) count(t) = 0;
    for (std::uint32_t s = 0; s < s_.size; ++s) {
      chosen(s) = items[s];
      for_terms(items[s], [&](std::uint32_t term) { ++count(term); });
    }
  }

  const SwapArgs& args_;
  const SwapQuery& q_;
  std::int64_t* field_;       // what adding the item would gain; for a chosen one, without its own terms
  std::int64_t* until_;       // the move from which the item may be added again; kNever: it is chosen
  std::int64_t* kept_until_;  // the move from which the item may be removed again
  std::uint16_t* count_;      // chosen items that cover the term
  std::uint16_t *chosen_, *walk_best_;
  std::uint16_t* order_;  // of lane 0
  const std::int64_t* pairs_;
  std::uint32_t pair_stride_;
  SwapState s_;
};

}  // namespace

ISINGLASS_KERNEL(evidence_swap, SwapArgs, 32) {
  const SwapQuery& query = args.queries[block_index()];
  if (!args.first && args.states[block_index()].stage == kDone) return;
  Search(args, query, SwapArena::of(query, args.rows_in_shared)).go_on();
}

}  // namespace isinglass::cuda
