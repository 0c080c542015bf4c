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

class SparseSweeper {
 public:
  ISINGLASS_DEVICE explicit SparseSweeper(const SparseArgs& args)
      : args_(args),
        model_(args.model),
        shared_(*shared_arena<SparseShared>()),
        state_(args.states + std::size_t{block_index()} * args.model.n),
        best_state_(args.bests + std::size_t{block_index()} * args.model.n),
        replica_(kWarp * block_index() + lane_index()),
        live_(replica_ < args.replicas && (args.over == nullptr || args.over[replica_ / kReplicasOfRead] == 0)),
        key_(read_key(args.seed, args.first + replica_)) {}

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
      const float t2 = args_.t2_each == nullptr ? args_.t2[sweep] : live_ ? args_.t2_each[replica_] : 0;
      pass<false>(sweep_key(key_, sweep), t2);
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
  template <class Visit>
  ISINGLASS_DEVICE void for_variables(Visit visit) const {
    for (std::uint32_t i = warp_index(); i < model_.n; i += warps_in_block()) visit(i);
  }

  /// Takes the replicas of `lanes` over from other states.
  ISINGLASS_DEVICE void merge(std::uint32_t* to, const std::uint32_t* from, std::uint32_t lanes) const {
    for (std::uint32_t i = thread_index(); i < model_.n; i += block_size()) {
      to[i] = (to[i] & ~lanes) | (from[i] & lanes);
    }
  }

  ISINGLASS_DEVICE void begin() {
    if (warp_index() == 0) shared_.energy[lane_index()] = shared_.flips[lane_index()] = 0;
    const SweepKey key = sweep_key(read_key(args_.seed ^ stream::initial_state, args_.first + replica_), 0);
    const std::uint32_t* const given =
        args_.given == nullptr ? nullptr : args_.given + std::size_t{block_index()} * model_.n;
    for_variables([&](std::uint32_t i) {
      const std::uint32_t word = given != nullptr ? given[i] : ballot(live_ && random_bits(key, i) >> 31 != 0);
      if (lane_index() == 0) state_[i] = best_state_[i] = word;
    });
    sync_block();
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
    atomic_add(&shared_.energy[lane_index()], energy);
    sync_block();
    best_ = shared_.energy[lane_index()];
    sync_block();
  }

  /// One sweep of all replicas. Cold: only what lowers the energy, and `moved` counts warps with flips.
  template <bool kCold>
  ISINGLASS_DEVICE void pass(SweepKey key, float t2) {
    const std::int32_t bound = kCold ? -1 : highest_limit(t2);
    std::int64_t change = 0, flips = 0;
    for (std::uint32_t level = 0; level < model_.levels; ++level) {
      const std::uint32_t end = model_.level_start[level + 1];
      for (std::uint32_t p = model_.level_start[level] + warp_index(); p < end; p += warps_in_block()) {
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
        change += accepted ? cost : 0;
        flips += accepted;
      }
      sync_block();
    }
    atomic_add(&shared_.energy[lane_index()], change);
    atomic_add(&shared_.flips[lane_index()], flips);
    if (kCold && flips != 0) atomic_add(&shared_.moved, 1U);
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
    for (std::uint32_t before = 0, now = 1; now != before;) {
      before = shared_.moved;
      sync_block();  // all have read it before anything moves
      pass<true>({0, 0}, 0);
      now = shared_.moved;
    }
  }

  const SparseArgs& args_;
  const SparseModel& model_;
  SparseShared& shared_;
  std::uint32_t* state_;
  std::uint32_t* best_state_;
  std::uint32_t replica_;
  bool live_;
  ReadKey key_;
  std::int64_t best_;
};

}  // namespace

ISINGLASS_KERNEL(sparse_sweep, SparseArgs, kSparseThreads) { SparseSweeper(args).run(); }

}  // namespace isinglass::cuda
