#include "large_fields.hpp"
#include "large_kernels.hpp"
#include "warp_anneal.hpp"

namespace isinglass::cuda {
namespace {

/// Every warp of the block decides by itself, from the same numbers, so that nothing has to be told; each changes the
/// fields of its own chunks. Barriers stand only where a word of variables has flips.
template <class Row, class Field, bool kCounts>
class LargeSweeper {
 public:
  ISINGLASS_DEVICE explicit LargeSweeper(const LargeSweepArgs& args)
      : args_(args),
        sum_(shared_arena<std::int64_t>()),
        fields_(args.model, shared_arena<Field>(16)),
        state_(shared_arena<std::uint32_t>(16 + field_bytes(args.model.n, sizeof(Field) == 2))),
        words_((args.model.n + 31) / 32),
        replica_(block_index()),
        own_(args.replicas[replica_]),
        key_(read_key(args.seed, own_.number)) {}

  ISINGLASS_DEVICE void run() {
    std::uint32_t* const states = args_.states + std::size_t{replica_} * words_;
    std::byte* const fields = args_.fields + replica_ * field_bytes(args_.model.n, sizeof(Field) == 2);
    ReplicaRecord& record = args_.records[replica_];
    if (args_.begins && args_.given == nullptr) {
      draw();
    } else {
      copy(state_, args_.begins ? args_.given + std::size_t{replica_} * words_ : states);
    }
    if (args_.begins) {
      sync_block();
      begin();
      best_ = energy_;
      flips_ = 0;
      keep();
    } else {
      fields_.load(fields);
      energy_ = record.energy;
      best_ = record.best;
      flips_ = record.flips;
      sync_block();
    }
    for (std::uint32_t sweep = args_.first; sweep < args_.first + args_.count && sweep < own_.sweeps; ++sweep) {
      const float t2 = args_.t2_each != nullptr ? args_.t2_each[replica_] : args_.t2[own_.first_t2 + sweep];
      moves_ = {};
      pass<false>(sweep_key(key_, sweep), t2);
      if (kCounts && thread_index() == 0) {
        atomic_add(&args_.moves[sweep].changing, moves_.changing);
        atomic_add(&args_.moves[sweep].uphill, moves_.uphill);
      }
      if (energy_ < best_) {
        best_ = energy_;
        if (args_.keep_best) keep();
      }
    }
    if (args_.finish) {
      if (best_ < energy_) {
        sync_block();
        copy(state_, args_.bests + std::size_t{replica_} * words_);
        sync_block();
        begin();
      }
      while (pass<true>({0, 0}, 0)) {
      }
    }
    copy(states, state_);
    fields_.store(fields);
    if (thread_index() == 0) record = {energy_, best_, flips_};
  }

 private:
  ISINGLASS_DEVICE void copy(std::uint32_t* to, const std::uint32_t* from) const {
    for (std::uint32_t w = thread_index(); w < words_; w += block_size()) to[w] = from[w];
  }
  ISINGLASS_DEVICE void keep() const { copy(args_.bests + std::size_t{replica_} * words_, state_); }

  ISINGLASS_DEVICE void draw() const {
    const SweepKey key = sweep_key(read_key(args_.seed ^ stream::initial_state, own_.number), 0);
    for (std::uint32_t w = warp_index(); w < words_; w += warps_in_block()) {
      const std::uint32_t v = kWarp * w + lane_index();
      const std::uint32_t word = ballot(v < args_.model.n && random_bits(key, v) >> 31 != 0);
      if (lane_index() == 0) state_[w] = word;
    }
  }

  /// Fields and energy of the state, which every thread sees.
  ISINGLASS_DEVICE void begin() {
    fields_.clear();
    for (std::uint32_t w = 0; w < words_; ++w) {
      for (std::uint32_t left = state_[w]; left != 0; left &= left - 1)
        fields_.add(kWarp * w + lowest_bit(left), false);
    }
    if (thread_index() == 0) *sum_ = 0;
    sync_block();
    // Of what is on: biases and fields, in which every coupling stands twice.
    std::int64_t twice = 0;
    for (std::uint32_t w = warp_index(); w < words_; w += warps_in_block()) {
      const std::uint32_t v = kWarp * w + lane_index();
      if (state_[w] >> lane_index() & 1) twice += std::int64_t{args_.model.linear[v]} + fields_.of(v);
    }
    twice = warp_sum(twice);
    if (lane_index() == 0) atomic_add(sum_, twice);
    sync_block();
    energy_ = *sum_ / 2;
  }

  /// One sweep; true when something flipped.
  template <bool kCold>
  ISINGLASS_DEVICE bool pass(SweepKey key, float t2) {
    const std::uint64_t before = flips_;
    const std::int32_t bound = kCold ? -1 : highest_limit(t2);
    for (std::uint32_t w = 0; w < words_; ++w) {
      const std::uint32_t v = kWarp * w + lane_index();
      const bool live = v < args_.model.n;
      std::uint32_t word = state_[w];
      std::int32_t field = fields_.of(v);
      std::int32_t cost = word >> lane_index() & 1 ? -field : field;
      std::int32_t limit = bound;
      std::uint32_t open = ballot(live && cost <= bound);
      if (open == 0) continue;
      if constexpr (!kCold) {
        limit = cost_limit(random_bits(key, v), t2);
        open = ballot(live && cost <= limit);
        if (open == 0) continue;
      }
      sync_block();  // all have read this word and its fields
      while (open != 0) {
        const unsigned next = lowest_bit(open);
        const std::uint32_t i = kWarp * w + next;
        const bool down = word >> next & 1;
        const std::int32_t change = shuffle(cost, next);
        energy_ += change;
        if constexpr (kCounts) {
          moves_.changing += change != 0;
          moves_.uphill += change > 0;
        }
        ++flips_;
        word ^= 1U << next;
        const std::int32_t coupling = fields_.coupling(i, v);
        field += down ? -coupling : coupling;
        fields_.add(i, down);
        cost = word >> lane_index() & 1 ? -field : field;
        open = ballot(live && cost <= limit) & ~((2U << next) - 1);
      }
      if (thread_index() == 0) state_[w] = word;
      sync_block();
    }
    return flips_ != before;
  }

  const LargeSweepArgs& args_;
  std::int64_t* sum_;
  LargeFields<Row, Field> fields_;
  std::uint32_t* state_;
  std::uint32_t words_, replica_;
  LargeReplica own_;
  ReadKey key_;
  std::int64_t energy_, best_;
  std::uint64_t flips_;
  Moves moves_;  // of this sweep
};

template <class Row, class Field, bool kCounts>
ISINGLASS_DEVICE void sweep_replica(const LargeSweepArgs& args) {
  if (args.over != nullptr && args.over[block_index() / kReplicasOfRead] != 0) return;
  LargeSweeper<Row, Field, kCounts>(args).run();
}

}  // namespace

#define ISINGLASS_LARGE(row, field)                                              \
  ISINGLASS_KERNEL(large_sweep_##row##_##field, LargeSweepArgs, kLargeThreads) { \
    sweep_replica<std::int##row##_t, std::int##field##_t, false>(args);          \
  }                                                                              \
  ISINGLASS_KERNEL(large_probe_##row##_##field, LargeSweepArgs, kLargeThreads) { \
    sweep_replica<std::int##row##_t, std::int##field##_t, true>(args);           \
  }
ISINGLASS_LARGE(8, 16)
ISINGLASS_LARGE(16, 16)
ISINGLASS_LARGE(8, 32)
ISINGLASS_LARGE(16, 32)
ISINGLASS_LARGE(32, 32)

const LargeKernels large_sweep_kernels{large_sweep_8_16, large_sweep_16_16, large_sweep_8_32, large_sweep_16_32,
                                       large_sweep_32_32};
const LargeKernels large_probe_kernels{large_probe_8_16, large_probe_16_16, large_probe_8_32, large_probe_16_32,
                                       large_probe_32_32};

}  // namespace isinglass::cuda
