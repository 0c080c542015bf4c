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
template <class Row>
class LargeTabu {
 public:
  ISINGLASS_DEVICE explicit LargeTabu(const LargeTabuArgs& args)
      : args_(args),
        n_(args.model.n),
        chunks_((n_ + kChunk - 1) / kChunk),
        words_((n_ + 31) / 32),
        sum_(shared_arena<std::int64_t>()),
        claims_(shared_arena<Claim>(16)),
        fields_(args.model, shared_arena<std::int32_t>(kFields)),
        release_(shared_arena<std::uint32_t>(kFields + sizeof(std::int32_t) * field_count(n_))),
        bits_(reinterpret_cast<std::uint16_t*>(release_ + kChunk * chunks_)),
        best_(bits_ + (chunks_ + 7) / 8 * 8) {}

  ISINGLASS_DEVICE void run() {
    const std::size_t read = block_index();
    if (!args_.begins && args_.ended[read] != 0) return;
    const std::uint64_t start = args_.starts[read];
    const SweepKey tenures = sweep_key(read_key(args_.seed ^ stream::tenure, start), 0);
    std::uint32_t* const holds = args_.holds + read * kChunk * chunks_;
    at_ = args_.begins ? TabuProgress{} : args_.progress[read];
    take_bits(start, holds);
    sync_block();
    at_.energy = begin();
    if (args_.begins) at_.best_energy = at_.energy;
    bool unsaved = args_.begins;
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
      reinterpret_cast<std::uint16_t*>(args_.states + read * words_)[c] = bits_[c];
      reinterpret_cast<std::uint16_t*>(args_.bests + read * words_)[c] = best_[c];
      for (std::uint32_t k = 0; k < kChunk; ++k) {
        const std::uint32_t release = release_[kChunk * c + k];
        holds[kChunk * c + k] = release > now ? release - now : 0;
      }
    });
    if (thread_index() == 0) {
      args_.progress[read] = at_;
      args_.ended[read] = ended || at_.moves >= args_.rules.max_moves;
    }
  }

 private:
  static constexpr std::size_t kFields = 16 + 2 * kWarp * sizeof(Claim);

  template <class Visit>
  ISINGLASS_DEVICE void for_own(Visit visit) const {
    for (std::uint32_t c = thread_index(); c < chunks_; c += block_size()) visit(c);
  }

  /// Own bits and holds, of the start state or from the last launch.
  ISINGLASS_DEVICE void take_bits(std::uint64_t start, const std::uint32_t* holds) const {
    const std::size_t read = block_index();
    const std::uint32_t* const words = args_.begins ? args_.given : args_.states;
    const SweepKey key = sweep_key(read_key(args_.seed ^ stream::initial_state, start), 0);
    for_own([&](std::uint32_t c) {
      std::uint32_t bits = 0;
      if (words != nullptr) {
        bits = reinterpret_cast<const std::uint16_t*>(words + read * words_)[c];
      } else {
        for (std::uint32_t k = 0; k < kChunk && kChunk * c + k < n_; ++k) {
          bits |= (random_bits(key, kChunk * c + k) >> 31) << k;
        }
      }
      bits_[c] = static_cast<std::uint16_t>(bits);
      best_[c] = args_.begins ? bits_[c] : reinterpret_cast<const std::uint16_t*>(args_.bests + read * words_)[c];
      for (std::uint32_t k = 0; k < kChunk; ++k) release_[kChunk * c + k] = args_.begins ? 0 : holds[kChunk * c + k];
    });
    if (thread_index() == 0) *sum_ = 0;
  }

  /// Fields and energy of the state, which every thread sees.
  ISINGLASS_DEVICE std::int64_t begin() const {
    fields_.clear();
    for (std::uint32_t c = 0; c < chunks_; ++c) {
      for (std::uint32_t left = bits_[c]; left != 0; left &= left - 1)
        fields_.add(kChunk * c + lowest_bit(left), false);
    }
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
      ISINGLASS_UNROLL
      for (std::uint32_t k = 0; k < kChunk; ++k) {
        const std::uint32_t v = kChunk * c + k;
        const std::int32_t field = fields_.of(v), cost = bits >> k & 1 ? -field : field;
        const bool may = v < n_ && (release_[v] <= now || cost < gain);
        if (may && cost < mine.cost) mine = {cost, static_cast<std::int32_t>(v << 1 | (bits >> k & 1))};
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
    if (release_[v] <= now) release_[v] = now + 1 + args_.rules.tenure + more;
  }

  ISINGLASS_DEVICE void save() const {
    for_own([&](std::uint32_t c) { best_[c] = bits_[c]; });
  }

  const LargeTabuArgs& args_;
  std::uint32_t n_, chunks_, words_;
  std::int64_t* sum_;
  Claim* claims_;
  LargeFields<Row> fields_;
  std::uint32_t* release_;  // by variable: the move of this launch from which on it is free
  std::uint16_t* bits_;     // by chunk
  std::uint16_t* best_;
  TabuProgress at_;
};

}  // namespace

ISINGLASS_KERNEL(large_tabu_8, LargeTabuArgs, kLargeTabuThreads) { LargeTabu<std::int8_t>(args).run(); }
ISINGLASS_KERNEL(large_tabu_16, LargeTabuArgs, kLargeTabuThreads) { LargeTabu<std::int16_t>(args).run(); }
ISINGLASS_KERNEL(large_tabu_32, LargeTabuArgs, kLargeTabuThreads) { LargeTabu<std::int32_t>(args).run(); }

}  // namespace isinglass::cuda
