#include "isinglass/tabu_kernels.hpp"

#include "integer_lanes.hpp"

namespace isinglass::ISINGLASS_LEVEL {
namespace {

// --- what a scan needs of a vector of costs
// ---------------------------------------------------------------------------

#if defined(ISINGLASS_LEVEL_v4)
#define ISINGLASS_PICK(L, bits_, name)                                                             \
  ISINGLASS_INLINE L::Mask below_##name(L::Fields a, L::Fields b) {                                \
    return _mm512_cmplt_epi##bits_##_mask((__m512i)a, (__m512i)b);                                 \
  }                                                                                                \
  ISINGLASS_INLINE L::Mask equal_##name(L::Fields a, L::Fields b) {                                \
    return _mm512_cmpeq_epi##bits_##_mask((__m512i)a, (__m512i)b);                                 \
  }                                                                                                \
  ISINGLASS_INLINE L::Fields select_##name(L::Mask m, L::Fields a, L::Fields b) {                  \
    return (L::Fields)_mm512_mask_mov_epi##bits_((__m512i)b, m, (__m512i)a);                       \
  }                                                                                                \
  ISINGLASS_INLINE L::Fields lower_##name(L::Fields a, L::Fields b) {                              \
    return (L::Fields)_mm512_min_epi##bits_((__m512i)a, (__m512i)b);                               \
  }                                                                                                \
  ISINGLASS_INLINE L::Fields stepped_##name(L::Fields c, L::Fields w, L::Mask minus) {             \
    return (L::Fields)_mm512_mask_sub_epi##bits_((__m512i)(c + w), minus, (__m512i)c, (__m512i)w); \
  }
ISINGLASS_PICK(Lanes32, 32, 32)
ISINGLASS_PICK(Lanes16, 16, 16)
#undef ISINGLASS_PICK
#endif

template <class L>
struct Pick {
  using Fields = typename L::Fields;
  using Mask = typename L::Mask;

#if defined(ISINGLASS_LEVEL_v4)
  static constexpr bool kWide = sizeof(typename L::Field) == 4;
  ISINGLASS_MEMBER Mask below(Fields a, Fields b) {
    if constexpr (kWide)
      return below_32(a, b);
    else
      return below_16(a, b);
  }
  ISINGLASS_MEMBER Mask equal(Fields a, Fields b) {
    if constexpr (kWide)
      return equal_32(a, b);
    else
      return equal_16(a, b);
  }
  ISINGLASS_MEMBER Fields select(Mask m, Fields a, Fields b) {
    if constexpr (kWide)
      return select_32(m, a, b);
    else
      return select_16(m, a, b);
  }
  ISINGLASS_MEMBER Fields lower(Fields a, Fields b) {
    if constexpr (kWide)
      return lower_32(a, b);
    else
      return lower_16(a, b);
  }
  /// c - w where `minus`, else c + w.
  ISINGLASS_MEMBER Fields stepped(Fields c, Fields w, Mask minus) {
    if constexpr (kWide)
      return stepped_32(c, w, minus);
    else
      return stepped_16(c, w, minus);
  }
  ISINGLASS_MEMBER Mask one(int lane) { return static_cast<Mask>(1U << lane); }
  ISINGLASS_MEMBER Mask all_where(std::int32_t sign) { return static_cast<Mask>(sign); }
  ISINGLASS_MEMBER std::int32_t sign_of(const Mask* bits, std::size_t i) {
    return -static_cast<std::int32_t>(bits[i / L::kCount] >> (i % L::kCount) & 1);
  }
#else
  ISINGLASS_MEMBER Mask below(Fields a, Fields b) {
#if defined(ISINGLASS_LEVEL_scalar)
    return -static_cast<std::int32_t>(a < b);
#else
    return a < b;
#endif
  }
  ISINGLASS_MEMBER Mask equal(Fields a, Fields b) {
#if defined(ISINGLASS_LEVEL_scalar)
    return -static_cast<std::int32_t>(a == b);
#else
    return a == b;
#endif
  }
  ISINGLASS_MEMBER Fields select(Mask m, Fields a, Fields b) { return m ? a : b; }
  ISINGLASS_MEMBER Fields lower(Fields a, Fields b) { return a < b ? a : b; }
  ISINGLASS_MEMBER Fields stepped(Fields c, Fields w, Mask minus) { return c + ((w ^ minus) - minus); }
  /// Read as one whole vector where it was written as one: a lane written alone would stall the next pass.
  ISINGLASS_MEMBER Mask one(int lane) {
    typename L::Field lanes[2 * L::kCount - 1] = {};
    lanes[L::kCount - 1] = -1;
    return load_vector<Mask>(lanes + (L::kCount - 1 - lane));
  }
  ISINGLASS_MEMBER Mask all_where(std::int32_t sign) { return Mask{} + static_cast<typename L::Field>(sign); }
  ISINGLASS_MEMBER std::int32_t sign_of(const Mask* bits, std::size_t i) {
    typename L::Field sign;
    std::memcpy(&sign, reinterpret_cast<const typename L::Field*>(bits) + i, sizeof sign);
    return sign;
  }
#endif

  ISINGLASS_MEMBER std::int32_t smallest(Fields v) {
#if defined(ISINGLASS_LEVEL_scalar)
    return v;
#elif defined(ISINGLASS_LEVEL_v4)
    const __m256i low = _mm512_castsi512_si256((__m512i)v), high = _mm512_extracti64x4_epi64((__m512i)v, 1);
    return kWide ? smallest256(_mm256_min_epi32(low, high)) : smallest256(_mm256_min_epi16(low, high));
#elif defined(ISINGLASS_LEVEL_v3)
    return smallest256((__m256i)v);
#elif defined(ISINGLASS_X86)
    return smallest128((__m128i)v);
#else
    std::int32_t least = v[0];
    for (int l = 1; l < L::kCount; ++l) least = v[l] < least ? v[l] : least;
    return least;
#endif
  }

 private:
#if defined(ISINGLASS_X86)
  ISINGLASS_MEMBER std::int32_t smallest128(__m128i v) {
    if constexpr (sizeof(typename L::Field) == 2) {
      // The one horizontal minimum there is, of unsigned numbers.
      const __m128i flip = _mm_set1_epi16(-32768);
      return static_cast<std::int16_t>(
          _mm_cvtsi128_si32(_mm_xor_si128(_mm_minpos_epu16(_mm_xor_si128(v, flip)), flip)));
    } else {
      v = _mm_min_epi32(v, _mm_shuffle_epi32(v, 0x4e));
      return _mm_cvtsi128_si32(_mm_min_epi32(v, _mm_shuffle_epi32(v, 0xb1)));
    }
  }
#endif
#if defined(ISINGLASS_LEVEL_v4) || defined(ISINGLASS_LEVEL_v3)
  ISINGLASS_MEMBER std::int32_t smallest256(__m256i v) {
    const __m128i low = _mm256_castsi256_si128(v), high = _mm256_extracti128_si256(v, 1);
    if constexpr (sizeof(typename L::Field) == 2) return smallest128(_mm_min_epi16(low, high));
    return smallest128(_mm_min_epi32(low, high));
  }
#endif
};

/// Lane by lane, the lowest free cost with its block, and the lowest cost of all.
template <class L>
struct Lowest {
  typename L::Fields free = L::broadcast(L::kLargest);
  typename L::Fields block = L::broadcast(0);
  typename L::Fields any = L::broadcast(L::kLargest);

  __attribute__((always_inline)) void note(typename L::Fields cost, typename L::Mask held, std::size_t at) {
    const typename L::Fields candidate = Pick<L>::select(held, L::broadcast(L::kLargest), cost);
    const typename L::Mask better = Pick<L>::below(candidate, free);
    any = Pick<L>::lower(any, cost);
    free = Pick<L>::lower(free, candidate);
    block = Pick<L>::select(better, L::broadcast(static_cast<std::int32_t>(at)), block);
  }
  /// `later` holds blocks after those noted here.
  __attribute__((always_inline)) void note(const Lowest& later) {
    const typename L::Mask better = Pick<L>::below(later.free, free);
    any = Pick<L>::lower(any, later.any);
    free = Pick<L>::lower(free, later.free);
    block = Pick<L>::select(better, later.block, block);
  }
};

template <class L>
struct Choice {
  std::int32_t variable;  // -1: none
  std::int32_t cost;
};

template <class L>
ISINGLASS_INLINE std::size_t blocks_of(std::size_t n) {
  return (n + L::kCount - 1) / L::kCount;
}

/// The free variable of lowest cost; or any, where that leads below `aspiration`.
template <class L>
ISINGLASS_INLINE Choice<L> choose(const TabuWalk& walk, const Lowest<L>& lowest, typename L::Fields aspiration) {
  using P = Pick<L>;
  if (L::any(P::below(lowest.any, aspiration))) {
    const std::int32_t cost = P::smallest(lowest.any);
    const auto* const costs = static_cast<const typename L::Field*>(walk.here.costs);
    for (std::size_t b = 0;; ++b) {
      const std::uint32_t at = L::to_bits(P::equal(L::load(costs + b * L::kCount), L::broadcast(cost)));
      if (at != 0) return {static_cast<std::int32_t>(b * L::kCount) + __builtin_ctz(at), cost};
    }
  }
  const std::int32_t cost = P::smallest(lowest.free);
  if (cost == L::kLargest) return {-1, 0};
  typename L::Mask tied = P::equal(lowest.free, L::broadcast(cost));
  const std::int32_t block = P::smallest(P::select(tied, lowest.block, L::broadcast(L::kLargest)));
  const std::uint32_t at = L::to_bits(tied) & L::to_bits(P::equal(lowest.block, L::broadcast(block)));
  return {block * L::kCount + __builtin_ctz(at), cost};
}

/// What the walk may gain by a move and still not be below the best: costs under it aspire.
template <class L>
ISINGLASS_INLINE typename L::Fields aspiration_of(const TabuWalk& walk) {
  const std::int64_t gain = walk.best_energy - walk.energy;
  return L::broadcast(gain < -L::kLargest ? -L::kLargest : static_cast<std::int32_t>(gain));
}

// --- dense rows ------------------------------------------------------------------------------------------------------

template <class L, class Row>
struct Dense {
  using Field = typename L::Field;
  using Mask = typename L::Mask;

  ISINGLASS_MEMBER std::size_t group_bytes(std::size_t) { return 0; }

  ISINGLASS_MEMBER Field* costs(const TabuWalk& walk) { return static_cast<Field*>(walk.here.costs); }
  ISINGLASS_MEMBER Mask* bits(const TabuWalk& walk) { return static_cast<Mask*>(walk.here.bits); }

  ISINGLASS_MEMBER std::int32_t sign(const TabuWalk& walk, std::size_t i) { return Pick<L>::sign_of(bits(walk), i); }

  /// Its own cost and bit at once; its row when the next pass comes by.
  ISINGLASS_MEMBER void flip(TabuWalk& walk, std::int32_t variable) {
    const auto i = static_cast<std::size_t>(variable);
    const std::size_t b = i / L::kCount;
    const Mask one = Pick<L>::one(static_cast<int>(i % L::kCount));
    walk.pending = variable;
    walk.pending_sign = sign(walk, i);
    L::store(costs(walk) + b * L::kCount, L::negate_where(one, L::load(costs(walk) + b * L::kCount)));
    bits(walk)[b] ^= one;
  }

  ISINGLASS_MEMBER void add_pending(TabuWalk& walk) {
    if (walk.pending < 0) return;
    const Row* row = static_cast<const Row*>(walk.rows) + static_cast<std::size_t>(walk.pending) * walk.stride;
    const Mask before = Pick<L>::all_where(walk.pending_sign);
    for (std::size_t b = 0, end = blocks_of<L>(walk.n); b < end; ++b) {
      Field* at = costs(walk) + b * L::kCount;
      L::store(at, Pick<L>::stepped(L::load(at), L::load_row(row + b * L::kCount), bits(walk)[b] ^ before));
    }
    walk.pending = -1;
  }

  ISINGLASS_MEMBER void clear(TabuWalk& walk) {
    for (std::size_t i = 0; i < walk.stride; ++i) costs(walk)[i] = 0;
    for (std::size_t i = 0; i < walk.n; ++i) costs(walk)[i] = static_cast<Field>(walk.linear[i]);
    for (std::size_t b = 0, end = blocks_of<L>(walk.n); b < end; ++b) bits(walk)[b] = L::none();
  }

  ISINGLASS_MEMBER void start(TabuWalk&) {}

  ISINGLASS_MEMBER Lowest<L> scan(TabuWalk& walk) {
    Lowest<L> lowest;
    const auto* const held = static_cast<const Mask*>(walk.held);
    const std::size_t end = blocks_of<L>(walk.n);
    if (walk.pending < 0) {
      for (std::size_t b = 0; b < end; ++b) lowest.note(L::load(costs(walk) + b * L::kCount), held[b], b);
      return lowest;
    }
    const Row* row = static_cast<const Row*>(walk.rows) + static_cast<std::size_t>(walk.pending) * walk.stride;
    const Mask before = Pick<L>::all_where(walk.pending_sign);
    Field* const at = costs(walk);
    const Mask* const x = bits(walk);
    for (std::size_t b = 0; b < end; ++b) {
      const typename L::Fields cost =
          Pick<L>::stepped(L::load(at + b * L::kCount), L::load_row(row + b * L::kCount), x[b] ^ before);
      L::store(at + b * L::kCount, cost);
      lowest.note(cost, held[b], b);
    }
    walk.pending = -1;
    return lowest;
  }

  ISINGLASS_MEMBER void touch(TabuWalk&, std::size_t) {}

  ISINGLASS_MEMBER void copy(const TabuWalk& walk) {
    const std::size_t bytes = walk.stride * sizeof(Field);
    __builtin_memcpy(walk.best.costs, walk.here.costs, bytes);
    __builtin_memcpy(walk.best.bits, walk.here.bits, blocks_of<L>(walk.n) * sizeof(Mask));
  }

  ISINGLASS_MEMBER bool bit(const Spot& spot, std::size_t i) {
    return Pick<L>::sign_of(static_cast<const Mask*>(spot.bits), i) != 0;
  }
};

// --- compressed rows -------------------------------------------------------------------------------------------------

/// A flip touches few costs, so the minima of groups of blocks are kept and only those of touched groups made anew.
template <class L>
struct Compressed {
  using Field = typename L::Field;
  using Mask = typename L::Mask;
  static constexpr std::size_t kBlocks = 8;  // of a group
  static constexpr std::size_t kGroup = kBlocks * L::kCount;

  ISINGLASS_MEMBER std::size_t groups_of(std::size_t n) { return (n + kGroup - 1) / kGroup; }
  ISINGLASS_MEMBER std::size_t group_bytes(std::size_t n) { return groups_of(n) * (sizeof(Lowest<L>) + 1); }
  ISINGLASS_MEMBER Lowest<L>* minima(const TabuWalk& walk) { return static_cast<Lowest<L>*>(walk.groups); }
  ISINGLASS_MEMBER std::uint8_t* stale(const TabuWalk& walk) {
    return static_cast<std::uint8_t*>(walk.groups) + groups_of(walk.n) * sizeof(Lowest<L>);
  }

  ISINGLASS_MEMBER Field* costs(const TabuWalk& walk) { return static_cast<Field*>(walk.here.costs); }
  ISINGLASS_MEMBER std::uint8_t* bits(const TabuWalk& walk) { return static_cast<std::uint8_t*>(walk.here.bits); }
  ISINGLASS_MEMBER std::int32_t sign(const TabuWalk& walk, std::size_t i) { return -bits(walk)[i]; }

  ISINGLASS_MEMBER void flip(TabuWalk& walk, std::int32_t variable) {
    const auto i = static_cast<std::size_t>(variable);
    Field* const at = costs(walk);
    std::uint8_t* const x = bits(walk);
    std::uint8_t* const touched = stale(walk);
    const int before = x[i];
    x[i] = static_cast<std::uint8_t>(before ^ 1);
    at[i] = static_cast<Field>(-at[i]);
    touched[i / kGroup] = 1;
    const Coupling* end = walk.couplings + walk.row_start[i + 1];
    for (const Coupling* c = walk.couplings + walk.row_start[i]; c != end; ++c) {
      const auto j = static_cast<std::size_t>(c->neighbour);
      const std::int32_t minus = -(x[j] ^ before);
      at[j] = static_cast<Field>(at[j] + ((c->weight ^ minus) - minus));
      touched[j / kGroup] = 1;
    }
  }

  ISINGLASS_MEMBER void add_pending(TabuWalk&) {}

  ISINGLASS_MEMBER void clear(TabuWalk& walk) {
    for (std::size_t i = 0; i < walk.stride; ++i) costs(walk)[i] = 0;
    for (std::size_t i = 0; i < walk.n; ++i) costs(walk)[i] = static_cast<Field>(walk.linear[i]);
    for (std::size_t i = 0; i < walk.n; ++i) bits(walk)[i] = 0;
  }

  ISINGLASS_MEMBER void start(TabuWalk& walk) {
    for (std::size_t g = 0; g < groups_of(walk.n); ++g) stale(walk)[g] = 1;
  }

  ISINGLASS_MEMBER Lowest<L> scan(TabuWalk& walk) {
    const auto* const held = static_cast<const Mask*>(walk.held);
    const std::size_t blocks = blocks_of<L>(walk.n);
    Lowest<L> lowest;
    for (std::size_t g = 0, end = groups_of(walk.n); g < end; ++g) {
      if (stale(walk)[g]) {
        Lowest<L> fresh;
        const std::size_t last = (g + 1) * kBlocks < blocks ? (g + 1) * kBlocks : blocks;
        for (std::size_t b = g * kBlocks; b < last; ++b) {
          fresh.note(L::load(costs(walk) + b * L::kCount), held[b], b);
        }
        minima(walk)[g] = fresh;
        stale(walk)[g] = 0;
        lowest.note(fresh);
      } else {
        lowest.note(minima(walk)[g]);
      }
    }
    return lowest;
  }

  ISINGLASS_MEMBER void touch(TabuWalk& walk, std::size_t i) { stale(walk)[i / kGroup] = 1; }

  ISINGLASS_MEMBER void copy(const TabuWalk& walk) {
    __builtin_memcpy(walk.best.costs, walk.here.costs, walk.stride * sizeof(Field));
    __builtin_memcpy(walk.best.bits, walk.here.bits, walk.n);
  }

  ISINGLASS_MEMBER bool bit(const Spot& spot, std::size_t i) { return static_cast<const std::uint8_t*>(spot.bits)[i]; }
};

// --- the search ------------------------------------------------------------------------------------------------------

template <class M>
ISINGLASS_INLINE void flip_now(TabuWalk& walk, std::size_t i) {
  walk.energy += M::costs(walk)[i];
  M::flip(walk, static_cast<std::int32_t>(i));
  M::add_pending(walk);
}

template <class M>
void begin(TabuWalk& walk, const std::uint32_t* words) {
  M::clear(walk);
  walk.energy = 0;
  walk.pending = -1;
  for (std::size_t i = 0; i < walk.n; ++i) {
    if (words[i / 32] >> (i % 32) & 1) flip_now<M>(walk, i);
  }
}

template <class M>
void flip(TabuWalk& walk, const std::int32_t* variables, std::size_t count) {
  walk.pending = -1;
  for (std::size_t k = 0; k < count; ++k) flip_now<M>(walk, static_cast<std::size_t>(variables[k]));
}

template <class L, class M>
void start(TabuWalk& walk) {
  auto* const held = static_cast<typename L::Mask*>(walk.held);
  const std::size_t blocks = blocks_of<L>(walk.n);
  for (std::size_t b = 0; b < blocks; ++b) held[b] = L::none();
  for (std::size_t i = walk.n; i < blocks * L::kCount; ++i) {
    held[i / L::kCount] |= Pick<L>::one(static_cast<int>(i % L::kCount));
  }
  for (std::uint32_t slot = 0; slot <= walk.ring_mask; ++slot) walk.released[slot] = -1;
  walk.moves = walk.since = 0;
  walk.best_energy = walk.energy;
  walk.unsaved = 1;
  M::start(walk);
}

template <class M>
ISINGLASS_INLINE void save(TabuWalk& walk) {
  M::add_pending(walk);
  M::copy(walk);
  walk.unsaved = 0;
}

template <class L, class M>
bool search(TabuWalk& walk, const TabuRun& run) {
  using P = Pick<L>;
  auto* const held = static_cast<typename L::Mask*>(walk.held);
  bool ended = walk.since >= run.patience || walk.best_energy <= run.target;
  while (!ended && walk.moves < run.until) {
    std::int32_t& slot = walk.released[walk.moves & walk.ring_mask];
    for (std::int32_t i = slot; i >= 0; i = walk.next[i]) {
      const auto at = static_cast<std::size_t>(i);
      typename L::Mask& block = held[at / L::kCount];
      block = static_cast<typename L::Mask>(block & ~P::one(static_cast<int>(at % L::kCount)));
      M::touch(walk, at);
    }
    slot = -1;
    const Choice<L> chosen = choose<L>(walk, M::scan(walk), aspiration_of<L>(walk));
    if (chosen.variable < 0) {  // all are held: this move is a pause
      ++walk.moves;
      ended = ++walk.since >= run.patience;
      continue;
    }
    if (walk.unsaved && chosen.cost >= 0) save<M>(walk);
    M::flip(walk, chosen.variable);
    walk.energy += chosen.cost;
    const std::uint32_t draw = mix(walk.key0 + static_cast<std::uint32_t>(walk.moves) * kVariableStep, walk.key1);
    const std::uint32_t tenure =
        walk.tenure + static_cast<std::uint32_t>((static_cast<std::uint64_t>(draw) * walk.tenure_spread) >> 32);
    ++walk.moves;
    if (tenure > 0) {
      const auto at = static_cast<std::size_t>(chosen.variable);
      typename L::Mask& block = held[at / L::kCount];
      const typename L::Mask one = P::one(static_cast<int>(at % L::kCount));
      const bool again = L::any(block & one);  // it aspired: it is in a list of the ring, and stays held until then
      if (!again) {
        block |= one;
        std::int32_t& first = walk.released[(walk.moves + tenure) & walk.ring_mask];
        walk.next[at] = first;
        first = chosen.variable;
      }
    }
    if (walk.energy < walk.best_energy) {
      walk.best_energy = walk.energy;
      walk.unsaved = 1;
      walk.since = 0;
      ended = walk.energy <= run.target;
    } else {
      ended = ++walk.since >= run.patience;
    }
  }
  if (walk.unsaved) save<M>(walk);
  return ended;
}

template <class M>
void words(const TabuWalk& walk, const Spot& spot, std::uint32_t* out) {
  for (std::size_t w = 0; w < (walk.n + 31) / 32; ++w) out[w] = 0;
  for (std::size_t i = 0; i < walk.n; ++i) out[i / 32] |= static_cast<std::uint32_t>(M::bit(spot, i)) << (i % 32);
}

template <class M>
std::size_t group_bytes(std::size_t n) {
  return M::group_bytes(n);
}

template <class L, class M>
constexpr TabuKernels kernels() {
  return {sizeof(typename L::Field), group_bytes<M>, begin<M>, flip<M>, start<L, M>, search<L, M>, words<M>};
}

}  // namespace

extern const TabuTable tabu_table{
    kernels<Lanes32, Dense<Lanes32, std::int32_t>>(), kernels<Lanes32, Dense<Lanes32, std::int16_t>>(),
    kernels<Lanes32, Dense<Lanes32, std::int8_t>>(),  kernels<Lanes16, Dense<Lanes16, std::int16_t>>(),
    kernels<Lanes16, Dense<Lanes16, std::int8_t>>(),  kernels<Lanes32, Compressed<Lanes32>>(),
    kernels<Lanes16, Compressed<Lanes16>>()};

}  // namespace isinglass::ISINGLASS_LEVEL
