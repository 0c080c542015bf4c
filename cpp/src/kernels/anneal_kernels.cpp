#include "integer_lanes.hpp"
#include "isinglass/moves.hpp"

namespace isinglass::ISINGLASS_LEVEL {
namespace {

// --- reads in the lanes ----------------------------------------------------------------------------------------------

/// Sums of a stretch of variables, lane by lane, in 32 bits: a stretch is short enough for them.
template <class L>
struct LaneSums {
  I32 energy[L::kHalves] = {};
  I32 flips[L::kHalves] = {};

  __attribute__((always_inline)) void add(typename L::Fields cost, typename L::Mask accepted) {
    I32 part[L::kHalves];
    L::widened(L::where(accepted, cost), part);
    for (int h = 0; h < L::kHalves; ++h) energy[h] += part[h];
    L::widened(L::ones_where(accepted), part);
    for (int h = 0; h < L::kHalves; ++h) flips[h] += part[h];
  }
  __attribute__((always_inline)) void flush(LaneWalk& walk) {
    std::int32_t e[L::kCount], f[L::kCount];
    std::memcpy(e, energy, sizeof e);
    std::memcpy(f, flips, sizeof f);
    for (int l = 0; l < L::kCount; ++l) walk.energy[l] += e[l];
    for (int l = 0; l < L::kCount; ++l) walk.flips[l] += static_cast<std::uint32_t>(f[l]);
  }
};

/// Variables whose costs one 32-bit sum can hold.
ISINGLASS_INLINE std::size_t stretch(std::int32_t worst_field) {
  return static_cast<std::size_t>(2147483647 / (worst_field > 0 ? worst_field : 1));
}

template <class L>
struct LaneKeys {
  U32 a[L::kHalves], b[L::kHalves];

  __attribute__((always_inline)) explicit LaneKeys(const LaneWalk& walk) {
    for (int h = 0; h < L::kHalves; ++h) {
      std::uint32_t at_a[kLanes32], at_b[kLanes32];
      for (int l = 0; l < kLanes32; ++l) {
        at_a[l] = walk.key_a[L::position(h, l)];
        at_b[l] = walk.key_b[L::position(h, l)];
      }
      a[h] = load_vector<U32>(at_a);
      b[h] = load_vector<U32>(at_b);
    }
  }
};

/// Per lane in the order of the keys.
template <class L>
ISINGLASS_INLINE void load_lane_floats(const float* values, F32* out) {
  for (int h = 0; h < L::kHalves; ++h) {
    float at[kLanes32];
    for (int l = 0; l < kLanes32; ++l) at[l] = values[L::position(h, l)];
    out[h] = load_vector<F32>(at);
  }
}

template <class L>
ISINGLASS_INLINE void add_row(const LaneWalk& walk, std::size_t i, typename L::Turn turn) {
  char* const fields = static_cast<char*>(walk.fields);
  const LaneCoupling* c = walk.couplings + walk.row_start[i];
  const LaneCoupling* const end = walk.couplings + walk.row_start[i + 1];
  const auto turned = [&](const LaneCoupling& at) __attribute__((always_inline)) {
    return L::turned(load_vector<typename L::Fields>(fields + at.offset), L::broadcast(at.weight), turn);
  };
  for (; c + 2 <= end; c += 2) {
    const typename L::Fields first = turned(c[0]), second = turned(c[1]);
    store_vector(fields + c[0].offset, first);
    store_vector(fields + c[1].offset, second);
  }
  if (c != end) store_vector(fields + c->offset, turned(*c));
}

/// One sweep; true when something flipped.
template <class L, Heat kHeat, bool kCount>
ISINGLASS_INLINE bool sweep_lanes(LaneWalk& walk, const LaneKeys<L>& keys, std::uint32_t sweep, const F32* t2,
                                  typename L::Fields bound, MoveCounts* counts) {
  auto* const fields = static_cast<typename L::Field*>(walk.fields);
  auto* const bits = static_cast<typename L::Mask*>(walk.bits);
  const typename L::Mask live = L::from_bits(walk.live);
  SweepKeys at[L::kHalves];
  if constexpr (kHeat != Heat::cold) {
    for (int h = 0; h < L::kHalves; ++h) at[h] = sweep_keys(keys.a[h], keys.b[h], sweep);
  }
  bool flipped = false;
  const std::size_t step = stretch(walk.worst_field);
  for (std::size_t begin = 0, end; begin < walk.n; begin = end) {
    end = walk.n - begin < step ? walk.n : begin + step;
    LaneSums<L> sums;
    for (std::size_t i = begin; i < end; ++i) {
      const typename L::Mask x = bits[i];
      const typename L::Fields cost = L::negate_where(x, L::load(fields + i * L::kCount));
      typename L::Mask accepted = L::at_most(cost, bound, live);
      if (!L::any(accepted)) continue;  // no random number of this temperature can accept any of them
      if constexpr (kHeat != Heat::cold) {
        I32 limit[L::kHalves];
        for (int h = 0; h < L::kHalves; ++h) {
          const std::uint32_t variable = static_cast<std::uint32_t>(i) * kVariableStep;
          limit[h] = thresholds<kHeat>(odd24(at[h].k0 + variable, at[h].folded), t2[h]);
        }
        accepted = L::at_most(cost, L::joined(limit), live);
        if (!L::any(accepted)) continue;
      }
      if constexpr (kCount) {
        const std::uint32_t all = L::to_bits(accepted);
        const std::uint32_t not_uphill = L::to_bits(L::at_most(cost, L::broadcast(0), live));
        const std::uint32_t downhill = L::to_bits(L::at_most(cost, L::broadcast(-1), live));
        counts->uphill += static_cast<std::uint64_t>(__builtin_popcount(all & ~not_uphill));
        counts->changing += static_cast<std::uint64_t>(__builtin_popcount(all & ~(not_uphill & ~downhill)));
      }
      sums.add(cost, accepted);
      bits[i] = x ^ accepted;
      add_row<L>(walk, i, L::turn(accepted, x));
      if constexpr (kHeat == Heat::cold) flipped = true;
    }
    sums.flush(walk);
  }
  return flipped;
}

template <class L>
ISINGLASS_INLINE void note_best(LaneWalk& walk, bool keep, std::int64_t* trace) {
  std::int64_t better[L::kCount];
  std::int64_t any = 0;
  for (int l = 0; l < L::kCount; ++l) {
    better[l] = walk.energy[l] < walk.best[l] ? -1 : 0;
    walk.best[l] = walk.energy[l] < walk.best[l] ? walk.energy[l] : walk.best[l];
    any |= better[l];
  }
  if (any && keep) {
    std::uint32_t lanes = 0;
    for (int l = 0; l < L::kCount; ++l) lanes |= static_cast<std::uint32_t>(better[l] & 1) << l;
    const typename L::Mask m = L::from_bits(lanes);
    const auto* const bits = static_cast<const typename L::Mask*>(walk.bits);
    auto* const best = static_cast<typename L::Mask*>(walk.best_bits);
    for (std::size_t i = 0; i < walk.n; ++i) best[i] = L::either(m, bits[i], best[i]);
  }
  if (trace != nullptr) {
    for (int l = 0; l < L::kCount; ++l) {
      if ((walk.live >> l & 1) && walk.energy[l] < *trace) *trace = walk.energy[l];
    }
  }
}

template <class L>
void begin_lanes(LaneWalk& walk, const std::uint8_t* states) {
  auto* const fields = static_cast<typename L::Field*>(walk.fields);
  auto* const bits = static_cast<typename L::Mask*>(walk.bits);
  for (std::size_t i = 0; i < walk.n; ++i) {
    L::store(fields + i * L::kCount, L::broadcast(walk.linear[i]));
    bits[i] = L::none();
  }
  std::uint64_t flips[L::kCount];
  std::memcpy(flips, walk.flips, sizeof flips);
  for (int l = 0; l < L::kCount; ++l) walk.energy[l] = 0;
  // From all zeros, variable after variable is turned on: the same sums as in a sweep.
  const std::size_t step = stretch(walk.worst_field);
  for (std::size_t begin = 0, end; begin < walk.n; begin = end) {
    end = walk.n - begin < step ? walk.n : begin + step;
    LaneSums<L> sums;
    for (std::size_t i = begin; i < end; ++i) {
      std::uint32_t on = 0;
      for (int l = 0, row = 0; l < L::kCount; ++l) {
        if (!(walk.live >> l & 1)) continue;
        on |= static_cast<std::uint32_t>(states[static_cast<std::size_t>(row++) * walk.n + i]) << l;
      }
      if (on == 0) continue;
      const typename L::Mask x = L::from_bits(on);
      sums.add(L::load(fields + i * L::kCount), x);
      bits[i] = x;
      add_row<L>(walk, i, L::turn(x, L::none()));
    }
    sums.flush(walk);
  }
  for (int l = 0; l < L::kCount; ++l) walk.best[l] = walk.energy[l];
  std::memcpy(walk.best_bits, walk.bits, walk.n * sizeof(typename L::Mask));
  std::memcpy(walk.flips, flips, sizeof flips);
}

template <class L>
void walk_lanes(LaneWalk& walk, const SweepRun& run) {
  const LaneKeys<L> keys(walk);
  for (std::uint32_t k = 0; k < run.count; ++k) {
    F32 t2[L::kHalves];
    for (int h = 0; h < L::kHalves; ++h) t2[h] = F32{} + run.t2[k];
    const std::int32_t bound = threshold_bound(run.t2[k]);
    const typename L::Fields most = L::broadcast(bound < L::kLargest ? bound : L::kLargest);
    if (is_hot(run.t2[k])) {
      sweep_lanes<L, Heat::hot, false>(walk, keys, run.first + k, t2, most, nullptr);
    } else {
      sweep_lanes<L, Heat::warm, false>(walk, keys, run.first + k, t2, most, nullptr);
    }
    note_best<L>(walk, run.keep_best, run.trace == nullptr ? nullptr : run.trace + k);
  }
}

template <class L>
void walk_lanes_each(LaneWalk& walk, std::uint32_t sweep) {
  const LaneKeys<L> keys(walk);
  F32 t2[L::kHalves];
  load_lane_floats<L>(walk.lane_t2, t2);
  typename L::Field bounds[L::kCount];
  bool hot = false;
  for (int l = 0; l < L::kCount; ++l) {
    const std::int32_t bound = threshold_bound(walk.lane_t2[l]);
    bounds[l] = static_cast<typename L::Field>(bound < L::kLargest ? bound : L::kLargest);
    hot |= is_hot(walk.lane_t2[l]);
  }
  if (hot) {
    sweep_lanes<L, Heat::hot, false>(walk, keys, sweep, t2, L::load(bounds), nullptr);
  } else {
    sweep_lanes<L, Heat::warm, false>(walk, keys, sweep, t2, L::load(bounds), nullptr);
  }
  note_best<L>(walk, true, nullptr);
}

template <class L>
void quench_lanes(LaneWalk& walk) {
  const LaneKeys<L> keys(walk);
  while (sweep_lanes<L, Heat::cold, false>(walk, keys, 0, nullptr, L::broadcast(-1), nullptr)) {
  }
}

template <class L>
void end_lanes(const LaneWalk& walk, bool best, std::uint8_t* states) {
  const auto* const bits = static_cast<const typename L::Mask*>(walk.bits);
  const auto* const best_bits = static_cast<const typename L::Mask*>(walk.best_bits);
  std::uint32_t lower = 0;
  for (int l = 0; l < L::kCount; ++l) lower |= static_cast<std::uint32_t>(best && walk.best[l] < walk.energy[l]) << l;
  for (std::size_t i = 0; i < walk.n; ++i) {
    const std::uint32_t x = (L::to_bits(bits[i]) & ~lower) | (L::to_bits(best_bits[i]) & lower);
    for (int l = 0, row = 0; l < L::kCount; ++l) {
      if (walk.live >> l & 1) states[static_cast<std::size_t>(row++) * walk.n + i] = x >> l & 1;
    }
  }
}

void probe(LaneWalk& walk, const SweepRun& run, MoveCounts* counts) {
  using L = Lanes32;
  const LaneKeys<L> keys(walk);
  for (std::uint32_t k = 0; k < run.count; ++k) {
    const F32 t2 = F32{} + run.t2[k];
    sweep_lanes<L, Heat::hot, true>(walk, keys, run.first + k, &t2, L::broadcast(threshold_bound(run.t2[k])),
                                    counts + k);
  }
}

template <class L>
constexpr LaneKernels lane_kernels() {
  return {L::kCount,          sizeof(typename L::Field), begin_lanes<L>, walk_lanes<L>,
          walk_lanes_each<L>, quench_lanes<L>,           end_lanes<L>};
}

// --- one read, a vector of variables at a time -----------------------------------------------------------------------

/// Whole rows whose entries are of type Row, widened to fields when they are added.
template <class L, class Row>
struct WholeRows {
  static constexpr bool kInRegister = true;

  /// What row i adds to the fields of one block.
  ISINGLASS_MEMBER typename L::Fields block(const RowWalk& walk, std::size_t i, std::size_t first) {
    return L::load_row(static_cast<const Row*>(walk.rows) + i * walk.stride + first);
  }
  ISINGLASS_MEMBER void prefetch(const RowWalk& walk, std::size_t i) {
    const Row* row = static_cast<const Row*>(walk.rows) + i * walk.stride;
    for (std::size_t j = 0; j < walk.n; j += 64 / sizeof(Row)) __builtin_prefetch(row + j);
  }
  /// Adds or subtracts row i.
  ISINGLASS_MEMBER void add(const RowWalk& walk, std::size_t i, bool down) {
    auto* const fields = static_cast<typename L::Field*>(walk.fields);
    const Row* row = static_cast<const Row*>(walk.rows) + i * walk.stride;
    const std::size_t end = (walk.n + L::kCount - 1) / L::kCount * L::kCount;
    if (down) {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < end; j += L::kCount) L::store(fields + j, L::load(fields + j) - L::load_row(row + j));
    } else {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < end; j += L::kCount) L::store(fields + j, L::load(fields + j) + L::load_row(row + j));
    }
  }
};

template <class L>
struct CompressedRows {
  static constexpr bool kInRegister = false;

  ISINGLASS_MEMBER void prefetch(const RowWalk&, std::size_t) {}
  ISINGLASS_MEMBER void add(const RowWalk& walk, std::size_t i, bool down) {
    auto* const fields = static_cast<typename L::Field*>(walk.fields);
    const Coupling* end = walk.couplings + walk.row_start[i + 1];
    for (const Coupling* c = walk.couplings + walk.row_start[i]; c != end; ++c) {
      fields[c->neighbour] += down ? -c->weight : c->weight;
    }
  }
};

constexpr std::size_t kAhead = 4;  // blocks whose rows are fetched before they are wanted

/// One sweep; true when something flipped.
template <class L, class Rows, Heat kHeat>
ISINGLASS_INLINE bool sweep_row(RowWalk& walk, const U32* steps, std::uint32_t sweep, float t2) {
  constexpr std::uint32_t kAll = L::kCount == 32 ? 0xffffffffU : (1U << (L::kCount & 31)) - 1;
  auto* const fields = static_cast<typename L::Field*>(walk.fields);
  auto* const bits = static_cast<typename L::Mask*>(walk.bits);
  std::int32_t most = kHeat == Heat::cold ? -1 : threshold_bound(t2);
  const typename L::Fields bound = L::broadcast(most < L::kLargest ? most : L::kLargest);
  const SweepKey scalar_key = sweep_key({walk.key_a, walk.key_b}, sweep);
  const SweepKeys key{U32{} + scalar_key.k0, U32{} + (scalar_key.k1 ^ (scalar_key.k1 >> 15))};
  const typename L::Mask everything = L::from_bits(kAll);
  const auto live_of = [&](std::size_t first) __attribute__((always_inline)) {
    return walk.n - first < L::kCount ? (1U << ((walk.n - first) & 31)) - 1 : kAll;
  };
  const auto draw = [&](std::size_t first) __attribute__((always_inline)) {
    I32 parts[L::kHalves];
    for (int h = 0; h < L::kHalves; ++h) {
      const U32 variable = steps[h] + static_cast<std::uint32_t>(first) * kVariableStep;
      parts[h] = thresholds<kHeat>(odd24(key.k0 + variable, key.folded), F32{} + t2);
    }
    return L::joined(parts);
  };
  std::int64_t energy = 0;
  std::uint64_t flips = 0;
  typename L::Fields limits[kAhead];
  for (std::size_t begin = 0; begin < walk.n; begin += kAhead * L::kCount) {
    const std::size_t end = walk.n - begin < kAhead * L::kCount ? walk.n : begin + kAhead * L::kCount;
    std::uint32_t drawn = 0;
    if constexpr (kHeat != Heat::cold) {
      // Thresholds do not depend on the state: drawn for some blocks ahead, they tell which rows will soon be wanted.
      for (std::size_t first = begin, b = 0; first < end; ++b, first += L::kCount) {
        const typename L::Fields cost = L::negate_where(bits[first / L::kCount], L::load(fields + first));
        if ((L::to_bits(L::at_most(cost, bound, everything)) & live_of(first)) == 0) continue;
        limits[b] = draw(first);
        drawn |= 1U << b;
        std::uint32_t wanted = L::to_bits(L::at_most(cost, limits[b], everything)) & live_of(first);
        for (; wanted != 0; wanted &= wanted - 1) {
          Rows::prefetch(walk, first + static_cast<std::size_t>(__builtin_ctz(wanted)));
        }
      }
    }
    for (std::size_t first = begin, b = 0; first < end; ++b, first += L::kCount) {
      const std::size_t block = first / L::kCount;
      typename L::Mask x = bits[block];
      typename L::Fields cost = L::negate_where(x, L::load(fields + first));
      std::uint32_t live = live_of(first);
      typename L::Fields limit = bound;
      if constexpr (kHeat != Heat::cold) {
        if (!(drawn >> b & 1)) {
          if ((L::to_bits(L::at_most(cost, bound, everything)) & live) == 0) continue;
          limits[b] = draw(first);
        }
        limit = limits[b];
      }
      std::uint32_t open = L::to_bits(L::at_most(cost, limit, everything)) & live;
      if (open == 0) continue;
      std::uint32_t state = L::to_bits(x);
      typename L::Fields field_block = L::load(fields + first);
      do {
        const int k = __builtin_ctz(open);
        live &= ~((2U << k) - 1);
        const std::size_t i = first + static_cast<std::size_t>(k);
        const bool down = state >> k & 1;
        const std::int32_t field = fields[i];
        energy += down ? -field : field;
        ++flips;
        state ^= 1U << k;
        x ^= L::one_hot(k);
        if constexpr (Rows::kInRegister) {
          // This block first: it decides what flips next, while the rest of the row is still on its way.
          field_block += L::negate_where(L::all_or_none(down), Rows::block(walk, i, first));
          cost = L::negate_where(x, field_block);
          open = L::to_bits(L::at_most(cost, limit, everything)) & live;
          Rows::add(walk, i, down);
        } else {
          Rows::add(walk, i, down);
          cost = L::negate_where(x, L::load(fields + first));
          open = L::to_bits(L::at_most(cost, limit, everything)) & live;
        }
      } while (open != 0);
      bits[block] = x;
    }
  }
  walk.energy += energy;
  walk.flips += flips;
  return flips != 0;
}

template <class L>
ISINGLASS_INLINE void keep_row(RowWalk& walk) {
  std::memcpy(walk.best_bits, walk.bits, (walk.n + L::kCount - 1) / L::kCount * sizeof(typename L::Mask));
}

template <class L, class Rows>
void begin_row(RowWalk& walk, const std::uint8_t* state) {
  auto* const fields = static_cast<typename L::Field*>(walk.fields);
  auto* const bits = static_cast<typename L::Mask*>(walk.bits);
  for (std::size_t i = 0; i < walk.stride; ++i) {
    fields[i] = i < walk.n ? static_cast<typename L::Field>(walk.linear[i]) : typename L::Field{0};
  }
  walk.energy = 0;
  for (std::size_t block = 0, first = 0; first < walk.n; ++block, first += L::kCount) {
    std::uint32_t on = 0;
    for (std::size_t i = first; i < walk.n && i < first + L::kCount; ++i) {
      if (!state[i]) continue;
      on |= 1U << (i - first);
      walk.energy += fields[i];
      Rows::add(walk, i, false);
    }
    bits[block] = L::from_bits(on);
  }
  walk.best = walk.energy;
  keep_row<L>(walk);
}

template <class L>
struct RowSteps {
  U32 at[L::kHalves];
  __attribute__((always_inline)) RowSteps() {
    for (int h = 0; h < L::kHalves; ++h) {
      std::uint32_t step[kLanes32];
      for (int l = 0; l < kLanes32; ++l) step[l] = static_cast<std::uint32_t>(L::position(h, l)) * kVariableStep;
      at[h] = load_vector<U32>(step);
    }
  }
};

template <class L, class Rows>
void walk_row(RowWalk& walk, const SweepRun& run) {
  const RowSteps<L> steps;
  for (std::uint32_t k = 0; k < run.count; ++k) {
    if (is_hot(run.t2[k])) {
      sweep_row<L, Rows, Heat::hot>(walk, steps.at, run.first + k, run.t2[k]);
    } else {
      sweep_row<L, Rows, Heat::warm>(walk, steps.at, run.first + k, run.t2[k]);
    }
    if (walk.energy < walk.best) {
      walk.best = walk.energy;
      if (run.keep_best) keep_row<L>(walk);
    }
    if (run.trace != nullptr && walk.energy < run.trace[k]) run.trace[k] = walk.energy;
  }
}

template <class L, class Rows>
void quench_row(RowWalk& walk) {
  const RowSteps<L> steps;
  while (sweep_row<L, Rows, Heat::cold>(walk, steps.at, 0, 0)) {
  }
}

template <class L>
void end_row(const RowWalk& walk, bool best, std::uint8_t* state) {
  const auto* const bits =
      static_cast<const typename L::Mask*>(best && walk.best < walk.energy ? walk.best_bits : walk.bits);
  for (std::size_t i = 0; i < walk.n; ++i) state[i] = L::to_bits(bits[i / L::kCount]) >> (i % L::kCount) & 1;
}

template <class L, class Rows>
constexpr RowKernels row_kernels() {
  return {sizeof(typename L::Field), begin_row<L, Rows>, walk_row<L, Rows>, quench_row<L, Rows>, end_row<L>};
}

}  // namespace

extern const MoveKernels move_kernels{lane_kernels<Lanes32>(),
                                      lane_kernels<Lanes16>(),
                                      row_kernels<Lanes32, WholeRows<Lanes32, std::int32_t>>(),
                                      row_kernels<Lanes32, WholeRows<Lanes32, std::int16_t>>(),
                                      row_kernels<Lanes32, WholeRows<Lanes32, std::int8_t>>(),
                                      row_kernels<Lanes16, WholeRows<Lanes16, std::int16_t>>(),
                                      row_kernels<Lanes16, WholeRows<Lanes16, std::int8_t>>(),
                                      row_kernels<Lanes32, CompressedRows<Lanes32>>(),
                                      probe};

}  // namespace isinglass::ISINGLASS_LEVEL
