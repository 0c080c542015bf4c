#include "large_fields.hpp"
#include "large_tabu_kernels.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::int32_t kNoMove = 2147483647;

/// What a thread, a warp or the block would flip: of equal costs the lowest variable.
struct Claim {
  std::int32_t cost;
  std::int32_t variable;  // twice, plus its state
};

/// The moves of cpp/src/kernels/tabu_kernels.cpp. A thread alone touches what belongs to its chunks; one barrier a
/// move, for the claims of the warps.
template <class Row, class Field>
class LargeTabu {
 public:
  ISINGLASS_DEVICE explicit LargeTabu(const LargeTabuArgs& args)
      : args_(args),
        n_(args.model.n),
        chunks_((n_ + kChunk - 1) / kChunk),
        words_((n_ + 31) / 32),
        sum_(shared_arena<std::int64_t>()),
        claims_(shared_arena<Claim>(16)),
        fields_(args.model, shared_arena<Field>(kFields)),
        release_(shared_arena<std::uint32_t>(kFields + field_bytes(n_, kNarrow))),
        bits_(reinterpret_cast<std::uint16_t*>(release_ + field_count(n_))),
        best_(bits_ + (chunks_ + 7) / 8 * 8) {}

  ISINGLASS_DEVICE void run() {
    const std::size_t search = block_index();
    const LargeTabuTask task = args_.tasks[search];
    if (task.turn == TabuTurn::rests) return;
    const bool begins = task.turn != TabuTurn::goes_on;
    const SweepKey tenures = sweep_key(read_key(args_.seed ^ stream::tenure, task.number), task.generation);
    std::uint32_t* const holds = args_.holds + search * field_count(n_);
    at_ = begins ? TabuProgress{} : args_.progress[search];
    take(task, begins, holds);
    sync_block();
    if (begins) at_.energy = at_.best_energy = begin();
    bool unsaved = false;
    bool ended = at_.since >= args_.rules.patience || at_.best_energy <= args_.rules.target;
    std::uint32_t now = 0;
    for (; !ended && now < args_.moves && at_.moves < args_.rules.max_moves; ++now) {
      const Claim chosen = choose(now);
      const bool pause = chosen.cost == kNoMove;  // all are held
      if (unsaved && !pause && chosen.cost >= 0) {
        save();
        unsaved = false;
      }
      if (!pause) {
        const std::uint32_t draw = mix(tenures.k0 + static_cast<std::uint32_t>(at_.moves) * kVariableStep, tenures.k1);
        flip(static_cast<std::uint32_t>(chosen.variable), now, draw);
        at_.energy += chosen.cost;
      }
      ++at_.moves;
      if (!pause && at_.energy < at_.best_energy) {
        at_.best_energy = at_.energy;
        at_.since = 0;
        unsaved = true;
        ended = at_.energy <= args_.rules.target;
      } else {
        ended = ++at_.since >= args_.rules.patience;
      }
    }
    if (unsaved) save();
    for_own([&](std::uint32_t c) {
      reinterpret_cast<std::uint16_t*>(args_.states + search * words_)[c] = bits_[c];
      reinterpret_cast<std::uint16_t*>(args_.bests + search * words_)[c] = best_[c];
      ISINGLASS_UNROLL
      for (std::uint32_t sub = 0; sub < Releases::kFours; ++sub) {
        FourWords four = *Releases::four(release_, c, sub);
        ISINGLASS_UNROLL
        for (std::uint32_t r = 0; r < 4; ++r) four.at[r] = four.at[r] > now ? four.at[r] - now : 0;
        *Releases::four(holds, c, sub) = four;
      }
    });
    if (thread_index() == 0 && chunks_ % 2 != 0) {
      reinterpret_cast<std::uint16_t*>(args_.bests + search * words_)[chunks_] = 0;
    }
    fields_.store(args_.fields + search * field_bytes(n_, kNarrow));
    if (thread_index() == 0) {
      args_.progress[search] = at_;
      args_.tasks[search].turn = ended || at_.moves >= args_.rules.max_moves ? TabuTurn::rests : TabuTurn::goes_on;
    }
  }

 private:
  using Releases = ChunkLayout<std::uint32_t>;
  static constexpr bool kNarrow = sizeof(Field) == 2;
  static constexpr std::size_t kFields = 16 + 2 * kWarp * sizeof(Claim);

  template <class Visit>
  ISINGLASS_DEVICE void for_own(Visit visit) const {
    for (std::uint32_t c = thread_index(); c < chunks_; c += block_size()) visit(c);
  }

  /// Own fields, bits and holds as the last launch left them; the start state, of a search that begins, as the best
  /// one.
  ISINGLASS_DEVICE void take(const LargeTabuTask& task, bool begins, std::uint32_t* holds) const {
    const std::size_t search = block_index();
    const bool first = task.turn == TabuTurn::first;
    const auto halves = [&](const std::uint32_t* words) {
      return reinterpret_cast<const std::uint16_t*>(words + search * words_);
    };
    const SweepKey key = sweep_key(read_key(args_.seed ^ stream::initial_state, task.number), 0);
    if (first) {
      fields_.clear();
    } else {
      fields_.load(args_.fields + search * field_bytes(n_, kNarrow));
    }
    for_own([&](std::uint32_t c) {
      bits_[c] = first ? 0 : halves(args_.states)[c];
      std::uint32_t best = 0;
      if (!begins) {
        best = halves(args_.bests)[c];
      } else if (args_.given != nullptr) {
        best = halves(args_.given)[c];
      } else {
        for (std::uint32_t k = 0; k < kChunk && kChunk * c + k < n_; ++k) {
          best |= (random_bits(key, kChunk * c + k) >> 31) << k;
        }
      }
      best_[c] = static_cast<std::uint16_t>(best);
      ISINGLASS_UNROLL
      for (std::uint32_t sub = 0; sub < Releases::kFours; ++sub) {
        *Releases::four(release_, c, sub) = begins ? FourWords{} : *Releases::four(holds, c, sub);
      }
    });
    if (thread_index() == 0) *sum_ = 0;
  }

  /// From where the fields are of to the start state, which is the best one; its energy, which every thread sees.
  ISINGLASS_DEVICE std::int64_t begin() const {
    for (std::uint32_t c = 0; c < chunks_; ++c) {
      const std::uint32_t bits = bits_[c];
      for (std::uint32_t left = bits ^ best_[c]; left != 0; left &= left - 1) {
        const unsigned k = lowest_bit(left);
        fields_.add(kChunk * c + k, (bits >> k & 1) != 0);
      }
    }
    sync_block();  // all have read the bits
    for_own([&](std::uint32_t c) { bits_[c] = best_[c]; });
    // Of what is on: biases and fields, in which every coupling stands twice.
    std::int64_t twice = 0;
    for_own([&](std::uint32_t c) {
      for (std::uint32_t left = bits_[c]; left != 0; left &= left - 1) {
        const std::uint32_t v = kChunk * c + lowest_bit(left);
        twice += std::int64_t{args_.model.linear[v]} + fields_.of(v);
      }
    });
    twice = warp_sum(twice);
    if (lane_index() == 0) atomic_add(sum_, twice);
    sync_block();
    return *sum_ / 2;
  }

  /// What may move: what is free, and what leads below the best energy. Then it is the lowest of all, so that one
  /// minimum serves both rules.
  ISINGLASS_DEVICE Claim choose(std::uint32_t now) {
    const std::int64_t gap = at_.best_energy - at_.energy;
    const std::int32_t gain = gap < -kNoMove ? -kNoMove : static_cast<std::int32_t>(gap);
    Claim mine{kNoMove, kNoMove};
    for_own([&](std::uint32_t c) {
      const std::uint32_t bits = bits_[c];
      const auto fields = fields_.chunk(c);
      ISINGLASS_UNROLL
      for (std::uint32_t sub = 0; sub < Releases::kFours; ++sub) {
        const FourWords releases = *Releases::four(release_, c, sub);
        ISINGLASS_UNROLL
        for (std::uint32_t r = 0; r < 4; ++r) {
          const std::uint32_t k = 4 * sub + r, v = kChunk * c + k;
          const std::int32_t cost = bits >> k & 1 ? -fields.at[k] : fields.at[k];
          const bool may = v < n_ && (releases.at[r] <= now || cost < gain);
          if (may && cost < mine.cost) mine = {cost, static_cast<std::int32_t>(v << 1 | (bits >> k & 1))};
        }
      }
    });
    Claim* const claims = claims_ + (now % 2) * kWarp;  // in turn: none is overwritten before all have read it
    const Claim of_warp = lowest(mine);
    if (lane_index() == 0) claims[warp_index()] = of_warp;
    sync_block();
    return lowest(lane_index() < warps_in_block() ? claims[lane_index()] : Claim{kNoMove, kNoMove});
  }

  ISINGLASS_DEVICE static Claim lowest(const Claim& mine) {
    const std::int32_t cost = warp_lowest(mine.cost);
    return {cost, warp_lowest(mine.cost == cost ? mine.variable : kNoMove)};
  }

  ISINGLASS_DEVICE void flip(std::uint32_t claimed, std::uint32_t now, std::uint32_t draw) const {
    const std::uint32_t v = claimed >> 1, c = v / kChunk;
    fields_.add(v, (claimed & 1) != 0);
    if (c % block_size() != thread_index()) return;
    bits_[c] = static_cast<std::uint16_t>(bits_[c] ^ 1U << v % kChunk);
    // One that aspires stays held for as long as it was.
    const auto more = static_cast<std::uint32_t>((static_cast<std::uint64_t>(draw) * args_.rules.spread) >> 32);
    std::uint32_t& release = release_[Releases::of(v)];
    if (release <= now) release = now + 1 + args_.rules.tenure + more;
  }

  ISINGLASS_DEVICE void save() const {
    for_own([&](std::uint32_t c) { best_[c] = bits_[c]; });
  }

  const LargeTabuArgs& args_;
  std::uint32_t n_, chunks_, words_;
  std::int64_t* sum_;
  Claim* claims_;
  LargeFields<Row, Field> fields_;
  std::uint32_t* release_;  // by variable: the move of this launch from which on it is free
  std::uint16_t* bits_;     // by chunk
  std::uint16_t* best_;
  TabuProgress at_;
};

}  // namespace

#define ISINGLASS_LARGE_TABU(row, field)                                           \
  ISINGLASS_KERNEL(large_tabu_##row##_##field, LargeTabuArgs, kLargeTabuThreads) { \
    LargeTabu<std::int##row##_t, std::int##field##_t>(args).run();                 \
  }
ISINGLASS_LARGE_TABU(8, 16)
ISINGLASS_LARGE_TABU(16, 16)
ISINGLASS_LARGE_TABU(8, 32)
ISINGLASS_LARGE_TABU(16, 32)
ISINGLASS_LARGE_TABU(32, 32)

const LargeKernels large_tabu_kernels{large_tabu_8_16, large_tabu_16_16, large_tabu_8_32, large_tabu_16_32,
                                      large_tabu_32_32};

}  // namespace isinglass::cuda
