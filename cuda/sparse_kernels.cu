#include "cost_limit.hpp"
#include "kernel.hpp"
#include "sparse_kernels.hpp"

namespace isinglass::cuda {
namespace {

/// What the warps of a block share, by lane.
struct SparseShared {
  std::int64_t energy[kWarp];
  std::int64_t flips[kWarp];
  std::uint32_t moved;
};

/// The replicas of a lane and a group of 32, whose states `parts` blocks share: this one is number `part` of them.
class SparseGroup {
 protected:
  ISINGLASS_DEVICE SparseGroup(const SparseArgs& args, std::uint32_t group, std::uint32_t part, std::uint32_t parts)
      : args_(args),
        model_(args.model),
        part_(part),
        parts_(parts),
        state_(args.states + std::size_t{group} * args.model.n),
        best_state_(args.bests + std::size_t{group} * args.model.n),
        given_(args.given == nullptr ? nullptr : args.given + std::size_t{group} * args.model.n),
        replica_(kWarp * group + lane_index()),
        live_(replica_ < args.replicas && (args.over == nullptr || args.over[replica_ / kReplicasOfRead] == 0)),
        key_(read_key(args.seed, args.first + replica_)) {}

  ISINGLASS_DEVICE std::uint32_t first_warp() const { return part_ * warps_in_block() + warp_index(); }
  ISINGLASS_DEVICE std::uint32_t all_warps() const { return parts_ * warps_in_block(); }
  ISINGLASS_DEVICE float t2_of(std::uint32_t sweep) const {
    return args_.t2_each == nullptr ? args_.t2[sweep] : live_ ? args_.t2_each[replica_] : 0;
  }

  template <class Visit>
  ISINGLASS_DEVICE void for_variables(Visit visit) const {
    for (std::uint32_t i = first_warp(); i < model_.n; i += all_warps()) visit(i);
  }

  /// Takes the replicas of `lanes` over from other states.
  ISINGLASS_DEVICE void merge(std::uint32_t* to, const std::uint32_t* from, std::uint32_t lanes) const {
    for (std::uint32_t i = part_ * block_size() + thread_index(); i < model_.n; i += parts_ * block_size()) {
      to[i] = (to[i] & ~lanes) | (from[i] & lanes);
    }
  }

  ISINGLASS_DEVICE void draw() const {
    const SweepKey key = sweep_key(read_key(args_.seed ^ stream::initial_state, args_.first + replica_), 0);
    for_variables([&](std::uint32_t i) {
      const std::uint32_t word = given_ != nullptr ? given_[i] : ballot(live_ && random_bits(key, i) >> 31 != 0);
      if (lane_index() == 0) state_[i] = best_state_[i] = word;
    });
  }

  /// Of this warp's variables.
  ISINGLASS_DEVICE std::int64_t energy() const {
    std::int64_t energy = 0;
    for_variables([&](std::uint32_t i) {
      if ((state_[i] >> lane_index() & 1) == 0) return;
      energy += model_.linear[i];
      for (std::int64_t k = model_.row_start[i]; k < model_.row_start[i + 1]; ++k) {
        const Coupling c = model_.couplings[k];
        if (static_cast<std::uint32_t>(c.neighbour) > i) break;  // those are counted at the neighbour
        if (state_[c.neighbour] >> lane_index() & 1) energy += c.weight;
      }
    });
    return energy;
  }

  /// What this warp's flips of a level come to.
  struct Change {
    std::int64_t energy = 0, flips = 0;
  };
  /// Cold: only what lowers the energy.
  template <bool kCold>
  ISINGLASS_DEVICE void visit(std::uint32_t level, SweepKey key, float t2, Change& change) const {
    const std::int32_t bound = kCold ? -1 : highest_limit(t2);
    const std::uint32_t end = model_.level_start[level + 1];
    for (std::uint32_t p = model_.level_start[level] + first_warp(); p < end; p += all_warps()) {
      const std::uint32_t i = model_.order[p], word = state_[i];
      std::int32_t field = model_.linear[i];
      for (std::int64_t k = model_.row_start[i]; k < model_.row_start[i + 1]; ++k) {
        const Coupling c = model_.couplings[k];
        if (state_[c.neighbour] >> lane_index() & 1) field += c.weight;
      }
      const std::int32_t cost = word >> lane_index() & 1 ? -field : field;
      bool accepted = live_ && cost <= bound;
      if (!any(accepted)) continue;
      if constexpr (!kCold) {
        accepted = live_ && cost <= cost_limit(random_bits(key, i), t2);
      }
      const std::uint32_t turned = ballot(accepted);
      if (turned == 0) continue;
      sync_warp();  // all lanes have read the word
      if (lane_index() == 0) state_[i] = word ^ turned;
      change.energy += accepted ? cost : 0;
      change.flips += accepted;
    }
  }

  const SparseArgs& args_;
  const SparseModel& model_;
  std::uint32_t part_, parts_;
  std::uint32_t* state_;
  std::uint32_t* best_state_;
  const std::uint32_t* given_;
  std::uint32_t replica_;
  bool live_;
  ReadKey key_;
};

/// A block alone.
class SparseSweeper : SparseGroup {
 public:
  ISINGLASS_DEVICE explicit SparseSweeper(const SparseArgs& args)
      : SparseGroup(args, block_index(), 0, 1), shared_(*shared_arena<SparseShared>()) {}

  ISINGLASS_DEVICE void run() {
    if (!any(live_)) return;  // whichever warp asks
    if (args_.begins) {
      begin();
    } else {
      if (warp_index() == 0) {
        shared_.energy[lane_index()] = live_ ? args_.records[replica_].energy : 0;
        shared_.flips[lane_index()] = live_ ? static_cast<std::int64_t>(args_.records[replica_].flips) : 0;
      }
      best_ = live_ ? args_.records[replica_].best : 0;
      sync_block();
    }
    for (std::uint32_t k = 0; k < args_.count; ++k) {
      const std::uint32_t sweep = args_.first_sweep + k;
      pass<false>(sweep_key(key_, sweep), t2_of(sweep));
      const std::int64_t energy = shared_.energy[lane_index()];
      const std::uint32_t better = ballot(live_ && energy < best_);
      if (energy < best_) best_ = energy;
      if (better != 0 && args_.keep_best) {
        merge(best_state_, state_, better);
        sync_block();  // before the next sweep changes what is copied
      }
    }
    if (args_.finish) quench();
    if (warp_index() == 0 && live_) {
      args_.records[replica_] = {shared_.energy[lane_index()], best_,
                                 static_cast<std::uint64_t>(shared_.flips[lane_index()])};
    }
  }

 private:
  ISINGLASS_DEVICE void begin() {
    if (warp_index() == 0) shared_.energy[lane_index()] = shared_.flips[lane_index()] = 0;
    draw();
    sync_block();
    atomic_add(&shared_.energy[lane_index()], energy());
    sync_block();
    best_ = shared_.energy[lane_index()];
  }

  /// One sweep of all replicas. Cold: only what lowers the energy, and `moved` counts warps with flips. The barrier
  /// after the first level also lets every warp read what they share before the sums of this sweep change it.
  template <bool kCold>
  ISINGLASS_DEVICE void pass(SweepKey key, float t2) {
    Change change;
    for (std::uint32_t level = 0; level < model_.levels; ++level) {
      visit<kCold>(level, key, t2, change);
      sync_block();
    }
    atomic_add(&shared_.energy[lane_index()], change.energy);
    atomic_add(&shared_.flips[lane_index()], change.flips);
    if (kCold && change.flips != 0) atomic_add(&shared_.moved, 1U);
    sync_block();
  }

  /// On from the best states, where they are lower, down to local minima.
  ISINGLASS_DEVICE void quench() {
    const std::uint32_t lower = ballot(live_ && best_ < shared_.energy[lane_index()]);
    sync_block();
    if (lower != 0) merge(state_, best_state_, lower);
    if (warp_index() == 0 && (lower >> lane_index() & 1) != 0) shared_.energy[lane_index()] = best_;
    if (thread_index() == 0) shared_.moved = 0;
    sync_block();
    std::uint32_t before = 0, now = 0;
    do {
      before = now;
      pass<true>({0, 0}, 0);
      now = shared_.moved;
    } while (now != before);
  }

  SparseShared& shared_;
  std::int64_t best_;
};

/// One of several blocks, for one step.
class SparseSpread : SparseGroup {
 public:
  ISINGLASS_DEVICE explicit SparseSpread(const SparseSpreadArgs& args)
      : SparseGroup(args.all, block_index() / args.parts, block_index() % args.parts, args.parts), spread_(args) {}

  ISINGLASS_DEVICE void run() {
    const bool one = part_ == 0 && warp_index() == 0 && live_;
    ReplicaRecord* const record = live_ ? args_.records + replica_ : nullptr;
    switch (spread_.step) {
      case SparseStep::draw:
        draw();
        if (one) *record = {0, kUnknown, 0};
        if (block_index() == 0 && thread_index() == 0) *spread_.moved = 0;
        break;
      case SparseStep::add:
        if (const std::int64_t mine = energy(); live_) atomic_add(&record->energy, mine);
        break;
      case SparseStep::visit:
        step<false>(sweep_key(key_, args_.first_sweep), t2_of(args_.first_sweep), record);
        break;
      case SparseStep::keep:
        take(best_state_, state_, live_ && record->energy < record->best);
        break;
      case SparseStep::note:
        if (one && record->energy < record->best) record->best = record->energy;
        break;
      case SparseStep::settle:
        take(state_, best_state_, live_ && record->best < record->energy);
        break;
      case SparseStep::lower:
        if (one && record->best < record->energy) record->energy = record->best;
        break;
      case SparseStep::cool:
        step<true>({0, 0}, 0, record);
        break;
    }
  }

 private:
  static constexpr std::int64_t kUnknown = 9223372036854775807;  // of a best energy

  ISINGLASS_DEVICE void take(std::uint32_t* to, const std::uint32_t* from, bool mine) const {
    if (const std::uint32_t lanes = ballot(mine); lanes != 0) merge(to, from, lanes);
  }

  template <bool kCold>
  ISINGLASS_DEVICE void step(SweepKey key, float t2, ReplicaRecord* record) const {
    Change change;
    visit<kCold>(spread_.level, key, t2, change);
    if (change.flips == 0) return;
    atomic_add(&record->energy, change.energy);
    atomic_add(reinterpret_cast<std::int64_t*>(&record->flips), change.flips);
    if constexpr (kCold) atomic_add(spread_.moved, 1U);
  }

  const SparseSpreadArgs& spread_;
};

}  // namespace

ISINGLASS_KERNEL(sparse_sweep, SparseArgs, kSparseThreads) { SparseSweeper(args).run(); }
ISINGLASS_KERNEL(sparse_spread, SparseSpreadArgs, kSpreadThreads) { SparseSpread(args).run(); }

}  // namespace isinglass::cuda
