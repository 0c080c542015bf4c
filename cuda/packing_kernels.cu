// The greedy of cpp/src/greedy.cpp, step by step, so that gains are refreshed when it refreshes them: the same picks,
// and the same stale gains for its bound.
//
// No entry of shared memory is read by another lane than the one that writes it; others ask by an exchange. Item i
// belongs to lane i mod 32. Of targets and groups each half of the warp holds a copy, entry t in its lane t mod 16. Of
// covered terms each lane holds all bits. So there is nothing to wait for, but for what the last launch left.
#include <cmath>
#include <type_traits>

#include "isinglass/expansion.hpp"
#include "lanes.hpp"
#include "packing_kernels.hpp"

namespace isinglass::cuda {
namespace {

constexpr unsigned kNone = 0xffffffffU;
constexpr double kAbsent = -1;  // from the queue: below every density
constexpr std::uint16_t kNever = 0xffff;
constexpr std::uint8_t kEligible = 1, kInSet = 2, kWanted = 4, kRival = 8;
constexpr unsigned kTogether = 16, kFlat = 256;  // as in cpp/src/greedy.cpp and isinglass/tournament.hpp

/// What is left of the budget.
class Purse {
 public:
  ISINGLASS_DEVICE explicit Purse(const PackingQuery& query) : q_(query) { reset(); }

  ISINGLASS_DEVICE void reset() {
    left_ = q_.integer_budget;
    spent_.clear();
  }
  ISINGLASS_DEVICE bool fits(unsigned item) const {
    return q_.integer_cost != nullptr ? in_device_memory(q_.integer_cost)[item] <= left_ : parts_fit(item);
  }
  /// By the doubles of integer costs, as the queue of the CPU drops items.
  ISINGLASS_DEVICE bool fits_by_load(unsigned item) const {
    return !(static_cast<double>(in_device_memory(q_.integer_cost)[item]) > static_cast<double>(left_));
  }
  ISINGLASS_DEVICE void spend(unsigned item) {
    if (q_.integer_cost != nullptr) {
      left_ -= in_device_memory(q_.integer_cost)[item];
    } else {
      spend_parts(item);
    }
  }

 private:
  ISINGLASS_DEVICE bool parts_fit(unsigned item) const {
    Expansion with = spent_;
    with.add(q_.cost[item]);
    return with.rounded() <= q_.budget;
  }
  ISINGLASS_DEVICE void spend_parts(unsigned item) { spent_.add(q_.cost[item]); }

  const PackingQuery& q_;
  std::int64_t left_ = 0;
  Expansion spent_;
};

/// What the set has so far, and what an item would add: each half of the warp may ask for an item of its own.
class Objective {
 public:
  ISINGLASS_DEVICE Objective(const PackingQuery& query, const PackingArena& arena)
      : q_(query),
        headroom_(of_half<double>(arena.headroom, query.targets)),
        group_mass_(of_half<double>(arena.group_mass, query.num_groups)),
        group_root_(of_half<double>(arena.group_root, query.num_groups)),
        nearest_(of_half<float>(arena.nearest, query.targets)),
        covered_{static_cast<std::uint32_t>(arena.covered + lane_index() * sizeof(std::uint32_t))} {}

  ISINGLASS_DEVICE void reset() {
    covered_mask_ = 0;
    if (counts_terms()) {
      for (unsigned word = 0; word * kWarp < q_.num_terms; ++word) covered_[word * kWarp] = 0;
    }
    for (unsigned t = lane_of_half(); t < q_.targets; t += kLanes) {
      if (q_.representation_scale > 0) headroom_[t] = q_.cap[t];
      if (q_.facility_scale > 0) nearest_[t] = 0;
    }
    if (q_.diversity_scale > 0) {
      for (unsigned g = lane_of_half(); g < q_.num_groups; g += kLanes) group_mass_[g] = group_root_[g] = 0;
    }
  }

  /// The same item for the whole warp.
  ISINGLASS_DEVICE void add(unsigned item) {
    if (q_.coverage_scale > 0 && q_.term_mask != nullptr) covered_mask_ |= q_.term_mask[item];
    if (counts_terms()) {
      for (std::uint32_t k = q_.term_start[item]; k < q_.term_start[item + 1]; ++k) {
        const auto term = static_cast<unsigned>(q_.term_list[k]);
        covered_[term / kWarp * kWarp] |= 1U << term % kWarp;
      }
    }
    if (q_.rows != nullptr) {
      const float* const row = row_of(item);
      for (unsigned t = lane_of_half(); t < q_.targets; t += kLanes) {
        if (q_.representation_scale > 0) headroom_[t] = positive(headroom_[t] - static_cast<double>(row[t]));
        if (q_.facility_scale > 0) nearest_[t] = row[t] > nearest_[t] ? row[t] : nearest_[t];
      }
    }
    if (q_.diversity_scale > 0) {
      const auto group = static_cast<unsigned>(q_.group[item]);
      if (group % kLanes == lane_of_half()) {
        group_mass_[group] += q_.relevance[item];
        group_root_[group] = std::sqrt(group_mass_[group]);
      }
    }
  }

  /// F(S + item) - F(S), terms in the order of PackingState::gains.
  ISINGLASS_DEVICE_CALL double gain(unsigned item) const {
    double total = 0;
    if (q_.relevance_scale > 0) total += q_.relevance_scale * in_device_memory(q_.relevance)[item];
    if (q_.coverage_scale > 0) total += q_.coverage_scale * covers(item);
    if (q_.representation_scale > 0) {
      const float* const row = row_of(item);
      double excess = 0;
      for (unsigned t = lane_of_half(); t < q_.targets; t += kLanes) {
        excess += positive(static_cast<double>(row[t]) - headroom_[t]);
      }
      total += q_.representation_scale * positive(q_.degree[item] - half_sum(excess));
    }
    if (q_.diversity_scale > 0) {
      const auto group = static_cast<unsigned>(q_.group[item]);
      const unsigned owner = group % kLanes;
      double more = 0;
      if (owner == lane_of_half()) {
        more = std::sqrt(group_mass_[group] + q_.relevance[item]) - group_root_[group];
      }
      total += q_.diversity_scale * shuffle(more, half_index() * kLanes + owner);
    }
    if (q_.facility_scale > 0) {
      const float* const row = row_of(item);
      double nearer = 0;
      for (unsigned t = lane_of_half(); t < q_.targets; t += kLanes) {
        nearer += positive(static_cast<double>(row[t]) - static_cast<double>(nearest_[t]));
      }
      total += q_.facility_scale * half_sum(nearer);
    }
    return total;
  }

 private:
  ISINGLASS_DEVICE const float* row_of(unsigned item) const {
    return in_device_memory(q_.rows) + static_cast<std::size_t>(item) * q_.targets;
  }
  ISINGLASS_DEVICE static double positive(double x) { return x > 0 ? x : 0; }
  ISINGLASS_DEVICE bool counts_terms() const { return q_.coverage_scale > 0 && q_.term_mask == nullptr; }

  ISINGLASS_DEVICE double covers(unsigned item) const {
    if (q_.term_mask != nullptr) {
      const std::uint64_t more = q_.term_mask[item] & ~covered_mask_;
      return bit_count(static_cast<std::uint32_t>(more)) + bit_count(static_cast<std::uint32_t>(more >> 32));
    }
    double weight = 0;
    for (std::uint32_t k = q_.term_start[item] + lane_of_half(); k < q_.term_start[item + 1]; k += kLanes) {
      const auto term = static_cast<unsigned>(q_.term_list[k]);
      if ((covered_[term / kWarp * kWarp] >> term % kWarp & 1) == 0) weight += q_.term_weight[term];
    }
    return half_sum(weight);
  }
  template <class T>
  ISINGLASS_DEVICE static SharedArray<T> of_half(std::size_t offset, std::uint32_t count) {
    return {static_cast<std::uint32_t>(offset + half_index() * count * sizeof(T))};
  }

  const PackingQuery& q_;
  SharedArray<double> headroom_;  // cap less what the set represents so far
  SharedArray<double> group_mass_, group_root_;
  SharedArray<float> nearest_;          // largest similarity to the set
  SharedArray<std::uint32_t> covered_;  // a word of 32 terms every 32 entries
  std::uint64_t covered_mask_ = 0;
};

class Run {
 public:
  ISINGLASS_DEVICE Run(const PackingArgs& args, const PackingQuery& query, const PackingArena& arena)
      : args_(args),
        q_(query),
        purse_(query),
        objective_(query, arena),
        gain_{static_cast<std::uint32_t>(arena.gain)},
        queue_{static_cast<std::uint32_t>(arena.queue)},
        fresh_at_{static_cast<std::uint32_t>(arena.fresh_at)},
        flags_{static_cast<std::uint32_t>(arena.flags)},
        selection_(args.selection + std::size_t{block_index()} * args.stride),
        gains_(args.gains + std::size_t{block_index()} * args.stride),
        snapshots_(args.snapshots + std::size_t{block_index()} * args.num_snapshots * args.stride),
        state_(args.states[block_index()]) {}

  ISINGLASS_DEVICE void solve() {
    if (args_.first) {
      begin();
    } else {
      resume();
    }
    while (stage_ != PackingStage::packed && !tired()) go_on();
    save();
  }

 private:
  template <class Body>
  ISINGLASS_DEVICE void for_own(Body body) {
    for (unsigned i = lane_index(); i < q_.n; i += kWarp) body(i);
  }
  ISINGLASS_DEVICE static bool owns(unsigned index) { return lane_index() == index % kWarp; }
  /// An entry that one lane holds, for all.
  template <class Entries>
  ISINGLASS_DEVICE static auto from_owner(Entries entries, unsigned index) {
    std::remove_cvref_t<decltype(entries[index])> mine{};
    if (owns(index)) mine = entries[index];
    return shuffle(mine, index % kWarp);
  }
  ISINGLASS_DEVICE unsigned picked(unsigned k) const { return static_cast<unsigned>(from_owner(selection_, k)); }

  ISINGLASS_DEVICE bool tired() const { return work_ >= args_.most_work; }

  ISINGLASS_DEVICE void begin() {
    for_own([&](unsigned i) { flags_[i] = q_.eligible[i] != 0 ? kEligible : 0; });
    pin();
    first_pass();
    for_own([&](unsigned i) { queue_[i] = (flags_[i] & kEligible) != 0 ? density(i) : kAbsent; });
    snapshot();
    stage_ = PackingStage::greedy;
  }

  /// One stage, as far as this launch goes.
  ISINGLASS_DEVICE void go_on() {
    if (stage_ == PackingStage::greedy) {
      if (run_greedy()) end_greedy();
    } else if (stage_ == PackingStage::max) {
      if (improve_by_max()) end_max();
    } else if (fill_up()) {
      stage_ = PackingStage::packed;
    }
  }

  ISINGLASS_DEVICE void end_greedy() {
    const unsigned picks = size_ - q_.num_pinned;
    save_gains(num_snapshots_);
    if (lane_index() == 0) {
      args_.answers[block_index()].num_snapshots = num_snapshots_ + 1;
      args_.answers[block_index()].picks = picks;
    }
    if (args_.plus_max) {
      begin_max();
    } else {
      improve_by_single();
      stage_ = PackingStage::packed;
    }
  }

  template <class Body>
  ISINGLASS_DEVICE void for_kept(Body body) {
    const std::size_t block = block_index(), stride = args_.stride;
    for_own([&](unsigned i) {
      body(i, args_.item_gains[block * 2 * stride + i], args_.item_gains[(block * 2 + 1) * stride + i],
           args_.fresh_at[block * stride + i], args_.flags[block * stride + i]);
    });
  }

  ISINGLASS_DEVICE void save() {
    if (lane_index() < kMostSnapshots) state_.largest[lane_index()] = largest_;
    if (stage_ != PackingStage::packed) {
      for_kept([&](unsigned i, double& gain, double& queue, std::uint16_t& fresh_at, std::uint8_t& flags) {
        gain = gain_[i];
        queue = queue_[i];
        fresh_at = fresh_at_[i];
        flags = flags_[i];
      });
    }
    sync_warp();  // every lane has read where this launch began
    if (lane_index() != 0) return;
    state_.start_value = start_value_;
    state_.prefix_value = max_.value;
    state_.best_value = max_.best_value;
    state_.stage = stage_;
    state_.size = size_;
    state_.num_snapshots = num_snapshots_;
    state_.evaluations = evaluations_;
    state_.last = max_.last;
    state_.prefix = max_.size;
    state_.known = max_.known;
    state_.best_size = max_.best_size;
    state_.best = max_.best;
    args_.answers[block_index()].size = size_;
    args_.answers[block_index()].evaluations = evaluations_;
  }

  ISINGLASS_DEVICE void resume() {
    stage_ = state_.stage;
    start_value_ = state_.start_value;
    num_snapshots_ = state_.num_snapshots;
    evaluations_ = state_.evaluations;
    max_ = {state_.last, state_.prefix,       state_.known,     state_.best_size,
            state_.best, state_.prefix_value, state_.best_value};
    if (lane_index() < kMostSnapshots) largest_ = state_.largest[lane_index()];
    size_ = state_.size;
    if (stage_ == PackingStage::packed) return;
    const unsigned size = size_;
    clear_set();
    for_kept([&](unsigned i, double gain, double queue, std::uint16_t fresh_at, std::uint8_t flags) {
      gain_[i] = gain;
      queue_[i] = queue;
      fresh_at_[i] = fresh_at;
      flags_[i] = static_cast<std::uint8_t>(flags & ~kInSet);
    });
    replay_to(size);
  }

  ISINGLASS_DEVICE bool has_room() const { return size_ < q_.max_items; }
  ISINGLASS_DEVICE bool fresh(unsigned item) const { return any(owns(item) && fresh_at_[item] == size_); }

  ISINGLASS_DEVICE void note(unsigned item, double gain) {
    if (!owns(item)) return;
    gain_[item] = gain;
    fresh_at_[item] = static_cast<std::uint16_t>(size_);
  }
  ISINGLASS_DEVICE double refresh(unsigned item) {
    const double gain = objective_.gain(item);
    note(item, gain);
    ++evaluations_;
    ++work_;
    return gain;
  }
  /// All items that are wanted, two at a time.
  ISINGLASS_DEVICE_CALL void refresh_wanted() {
    for (unsigned begin = 0; begin < q_.n; begin += kWarp) {
      const unsigned i = begin + lane_index();
      std::uint32_t wanted = ballot(i < q_.n && (flags_[i] & kWanted) != 0);
      while (wanted != 0) {
        const unsigned first = begin + lowest_bit(wanted);
        wanted &= wanted - 1;
        const bool two = wanted != 0;
        const unsigned second = two ? begin + lowest_bit(wanted) : first;
        wanted &= wanted - 1;
        const double gain = objective_.gain(half_index() == 0 ? first : second);
        const double gain_of_first = shuffle(gain, 0), gain_of_second = shuffle(gain, kLanes);
        note(first, gain_of_first);
        if (two) note(second, gain_of_second);
        evaluations_ += two ? 2 : 1;
        ++work_;
      }
    }
  }
  template <class Condition>
  ISINGLASS_DEVICE void want(Condition condition) {
    for_own([&](unsigned i) {
      flags_[i] = static_cast<std::uint8_t>(condition(i) ? flags_[i] | kWanted : flags_[i] & ~kWanted);
    });
  }

  ISINGLASS_DEVICE_CALL void take(unsigned item, double gain) {
    objective_.add(item);
    purse_.spend(item);
    value_ += gain;
    if (owns(size_)) {
      selection_[size_] = static_cast<std::int32_t>(item);
      gains_[size_] = gain;
    }
    if (owns(item)) flags_[item] |= kInSet;
    ++size_;
  }
  ISINGLASS_DEVICE void clear_set() {
    objective_.reset();
    purse_.reset();
    for_own([&](unsigned i) { flags_[i] = static_cast<std::uint8_t>(flags_[i] & ~kInSet); });
    size_ = 0;
    value_ = 0;
  }

  ISINGLASS_DEVICE void pin() {
    clear_set();
    for (unsigned k = 0; k < q_.num_pinned; ++k) {
      const auto item = static_cast<unsigned>(q_.pinned[k]);
      take(item, objective_.gain(item));
    }
    start_value_ = value_;
  }

  ISINGLASS_DEVICE void first_pass() {
    for_own([&](unsigned i) {
      gain_[i] = 0;
      fresh_at_[i] = kNever;
    });
    want([&](unsigned i) { return (flags_[i] & kEligible) != 0; });
    refresh_wanted();
  }

  /// Whether it came to its end; else this launch did.
  ISINGLASS_DEVICE bool run_greedy() {
    while (has_room()) {
      if (tired()) return false;
      const unsigned item = next();
      if (item == kNone) break;
      pick(item);
      const unsigned picks = size_ - q_.num_pinned;
      if (picks == kRefreshAfter) refresh_all();
      if (picks >= kRefreshAfter && (picks & (picks - 1)) == 0) snapshot();
    }
    return true;
  }

  ISINGLASS_DEVICE void pick(unsigned item) {
    take(item, from_owner(gain_, item));
    if (owns(item)) {
      gain_[item] = 0;
      queue_[item] = kAbsent;
    }
    if (q_.n > kFlat || q_.integer_cost == nullptr) return;
    for_own([&](unsigned i) {
      if (!purse_.fits_by_load(i)) queue_[i] = kAbsent;
    });
  }

  ISINGLASS_DEVICE double density(unsigned own) const { return gain_[own] / in_device_memory(q_.cost)[own]; }

  ISINGLASS_DEVICE void refresh_all() {
    want([&](unsigned i) { return gain_[i] > 0 && fresh_at_[i] != size_; });
    refresh_wanted();
    for_own([&](unsigned i) {
      if ((flags_[i] & kWanted) != 0 && queue_[i] != kAbsent) queue_[i] = density(i);
    });
  }

  ISINGLASS_DEVICE void save_gains(unsigned slot) {
    const unsigned padded = (q_.n + kLanes - 1) / kLanes * kLanes;
    for (unsigned i = lane_index(); i < padded; i += kWarp) {
      snapshots_[std::size_t{slot} * args_.stride + i] = i < q_.n ? gain_[i] : 0;
    }
    if (lane_index() == 0) args_.answers[block_index()].values[slot] = value_;
  }
  ISINGLASS_DEVICE void snapshot() {
    save_gains(num_snapshots_);
    double largest = 0;
    for_own([&](unsigned i) { largest = gain_[i] > largest ? gain_[i] : largest; });
    largest = warp_largest({largest, lane_index()}).value;
    if (lane_index() == num_snapshots_) largest_ = largest;
    ++num_snapshots_;
  }
  ISINGLASS_DEVICE static unsigned picks_at(unsigned slot) { return slot == 0 ? 0 : kRefreshAfter << (slot - 1); }

  ISINGLASS_DEVICE Largest top() {
    ++work_;
    Largest mine{kAbsent, kNone - lane_index()};
    for_own([&](unsigned i) {
      if (queue_[i] > mine.value) mine = {queue_[i], i};
    });
    return warp_largest(mine);
  }

  /// Brings an item of the queue up to date; false where it had to leave.
  ISINGLASS_DEVICE bool keep_if_fresh(unsigned item, bool is_fresh) {
    bool kept = purse_.fits(item);
    if (kept) kept = (is_fresh ? from_owner(gain_, item) : refresh(item)) > 0;
    if (owns(item)) queue_[item] = kept ? density(item) : kAbsent;
    return kept;
  }

  /// The item of largest density among those that fit and add something, or kNone. See cpp/src/greedy.cpp for why it is
  /// the choice of plain greedy.
  ISINGLASS_DEVICE_CALL unsigned next() {
    const double slack = q_.slack / q_.cheapest;
    double reached = 0;
    for (unsigned steps = q_.n <= kFlat ? 1 : q_.n;; steps *= 2) {
      bool last = false;
      for (unsigned k = 0; k < steps && !last; ++k) {
        const Largest first = top();
        if (first.value == kAbsent) return kNone;
        const bool was_fresh = fresh(first.index);
        if (!keep_if_fresh(first.index, was_fresh)) continue;
        const double now = from_owner(queue_, first.index);
        reached = now > reached ? now : reached;
        last = was_fresh;
      }
      if (reached == 0) continue;
      const double least = reached - slack > 0 ? reached - slack : 0;
      unsigned rivals = 0, stale = 0;
      for_own([&](unsigned i) {
        const bool rival = queue_[i] >= least, wanted = rival && fresh_at_[i] != size_;
        flags_[i] = static_cast<std::uint8_t>((flags_[i] & (kEligible | kInSet)) | (rival ? kRival : 0) |
                                              (wanted ? kWanted : 0));
        rivals += rival ? 1 : 0;
        stale += wanted ? 1 : 0;
      });
      rivals = warp_sum(rivals);
      stale = warp_sum(stale);
      if (rivals > 1) {
        if (stale > kTogether && !last) continue;
        refresh_wanted();
        for_own([&](unsigned i) {
          if ((flags_[i] & kRival) == 0) return;
          queue_[i] = purse_.fits(i) && gain_[i] > 0 ? density(i) : kAbsent;
        });
      }
      const Largest best = top();
      return best.value == kAbsent ? kNone : best.index;
    }
  }

  ISINGLASS_DEVICE void improve_by_single() {
    Largest mine{0, kNone - lane_index()};
    for_own([&](unsigned i) {
      if ((flags_[i] & kEligible) != 0 && snapshots_[i] > mine.value) mine = {snapshots_[i], i};
    });
    const Largest single = warp_largest(mine);
    if (!(single.value > value_ - start_value_)) return;
    pin();
    take(single.index, objective_.gain(single.index));
  }

  /// The greedy set, or a prefix of it (what was taken is still there) up to `size`.
  ISINGLASS_DEVICE void replay_to(unsigned size) {
    if (size_ > size) clear_set();
    while (size_ < size) take(picked(size_), from_owner(gains_, size_));
  }

  /// The best prefix of the greedy set with one more item.
  struct Max {
    unsigned last;         // size of the greedy set
    unsigned size, known;  // of the prefix, and the latest snapshot that was taken before it
    unsigned best_size, best;
    double value, best_value;  // of the prefix
  };

  ISINGLASS_DEVICE void begin_max() {
    stage_ = PackingStage::packed;
    max_ = {size_, q_.num_pinned, 0, size_, kNone, start_value_, value_};
    for (; max_.size < max_.last; ++max_.size) {
      while (max_.known + 1 < num_snapshots_ && picks_at(max_.known + 1) <= max_.size - q_.num_pinned) ++max_.known;
      if (max_.value + shuffle(largest_, max_.known) + q_.slack > value_) break;
      max_.value += from_owner(gains_, max_.size);
    }
    if (max_.size == max_.last) return;
    stage_ = PackingStage::max;
    for_own([&](unsigned i) { gain_[i] = snapshots_[std::size_t{max_.known} * args_.stride + i]; });
  }

  /// Whether it came to its end; else this launch did.
  ISINGLASS_DEVICE bool improve_by_max() {
    Purse purse(q_);
    for (unsigned k = 0; k < max_.size; ++k) leave_out(picked(k), purse);
    const unsigned end = max_.last < q_.max_items ? max_.last : q_.max_items;
    for (; max_.size < end; ++max_.size) {
      if (tired()) return false;
      for (unsigned begin = 0; begin < q_.n; begin += kWarp) {
        const unsigned i = begin + lane_index();
        const auto promising = [&] {
          return ballot(i < q_.n && (flags_[i] & kEligible) != 0 &&
                        max_.value + gain_[i] + q_.slack > max_.best_value && purse.fits(i));
        };
        for (std::uint32_t left = promising(); left != 0;) {
          const unsigned bit = lowest_bit(left), item = begin + bit;
          if (size_ != max_.size) replay_to(max_.size);
          const double gain = refresh(item);
          if (max_.value + gain > max_.best_value) {
            max_.best_value = max_.value + gain;
            max_.best_size = max_.size;
            max_.best = item;
          }
          left = promising() & ~((2U << bit) - 1);
        }
      }
      max_.value += from_owner(gains_, max_.size);
      leave_out(picked(max_.size), purse);
    }
    return true;
  }
  ISINGLASS_DEVICE void end_max() {
    stage_ = PackingStage::packed;
    if (max_.best == kNone) {
      size_ = max_.last;
      return;
    }
    replay_to(max_.best_size);
    take(max_.best, objective_.gain(max_.best));
    want([&](unsigned i) { return (flags_[i] & (kEligible | kInSet)) == kEligible && purse_.fits(i); });
    if (!has_room()) return;
    refresh_wanted();
    for_own([&](unsigned i) { queue_[i] = (flags_[i] & kWanted) != 0 ? density(i) : kAbsent; });
    stage_ = PackingStage::filling;
  }
  ISINGLASS_DEVICE void leave_out(unsigned item, Purse& purse) {
    purse.spend(item);
    if (owns(item)) gain_[item] = -HUGE_VAL;
  }

  ISINGLASS_DEVICE bool fill_up() {
    while (has_room()) {
      if (tired()) return false;
      const unsigned item = next();
      if (item == kNone) break;
      pick(item);
    }
    return true;
  }

  const PackingArgs& args_;
  const PackingQuery& q_;
  Purse purse_;
  Objective objective_;
  SharedArray<double> gain_, queue_;  // newest known gain of each item, and its density while it may be picked
  SharedArray<std::uint16_t> fresh_at_;
  SharedArray<std::uint8_t> flags_;
  std::int32_t* selection_;
  double *gains_, *snapshots_;
  PackingState& state_;
  double value_ = 0, start_value_ = 0;
  double largest_ = 0;  // largest gain in the snapshot of this lane's number
  unsigned size_ = 0, num_snapshots_ = 0, evaluations_ = 0;
  PackingStage stage_ = PackingStage::greedy;
  unsigned work_ = 0;
  Max max_{};
};

}  // namespace

ISINGLASS_KERNEL(packing_greedy, PackingArgs, 32) {
  const PackingQuery& query = args.queries[block_index()];
  Run(args, query, PackingArena::of(query)).solve();
}

}  // namespace isinglass::cuda
