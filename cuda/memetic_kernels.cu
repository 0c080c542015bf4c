#include "memetic_kernels.hpp"
#include "warp_anneal.hpp"
#include "warp_cross.hpp"

namespace isinglass::cuda {
namespace {

ISINGLASS_DEVICE float kernel_t2(double temperature) {
  constexpr double kLn2 = 0.693147180559945309417;
  const double t2 = temperature * kLn2;
  return static_cast<float>(t2 < 1e30 ? t2 : 1e30);
}

// --- filling ---------------------------------------------------------------------------------------------------------

template <class Row, unsigned kSlots>
ISINGLASS_DEVICE void fill_pool(const FillArgs& args) {
  const FillTask task = args.tasks[block_index()];
  const PoolTask pool = args.pools[task.pool];
  const SmallModel model = args.models[pool.model];
  WarpCosts<Row, kSlots> walk(rows_of<Row, kSlots>(model), model.linear, model.n);
  for (unsigned r = task.first + warp_index(); r < task.first + task.reads; r += warps_in_block()) {
    FillRead& read = args.reads[pool.first_read + r];
    std::uint32_t* const here = args.here + pool.first_read_word + std::size_t{kSlots} * r;
    std::uint32_t* const best = args.best + pool.first_read_word + std::size_t{kSlots} * r;
    if (r < pool.given) {
      if (args.first > 0) continue;
      const std::int64_t energy = walk.begin([&](unsigned k) { return here[k]; });
      if (lane_index() == 0) read.energy = energy;
      continue;
    }
    const std::uint64_t number = pool.number << 32 | (r - pool.given);
    if (args.first >= pool.sweeps) continue;
    const bool begins = args.first == 0;
    WarpAnneal<Row, kSlots> anneal(
        walk, begins ? walk.begin_random(sweep_key(read_key(pool.seed ^ stream::initial_state, number), 0))
                     : walk.begin([&](unsigned k) { return here[k]; }));
    double temperature = begins ? pool.hot : read.temperature;
    if (!begins) anneal.restore_best(read.best_energy, best);
    sync_warp();
    const ReadKey key = read_key(pool.seed, number);
    const std::uint32_t left = pool.sweeps - args.first, count = left < args.count ? left : args.count;
    for (std::uint32_t k = 0; k < count; ++k) {
      anneal.sweep(sweep_key(key, args.first + k), kernel_t2(temperature));
      temperature *= pool.ratio;
    }
    if (args.finish || count == left) {
      anneal.return_to_best();
      anneal.quench();
    }
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      const std::uint32_t word = walk.word(k), best_word = anneal.best_word(k);
      if (lane_index() == 0) {
        here[k] = word;
        best[k] = best_word;
      }
    }
    if (lane_index() == 0) read = {anneal.energy(), anneal.best_energy(), temperature};
  }
}

// --- breeding --------------------------------------------------------------------------------------------------------

/// Energy, then bits: how members are ordered.
struct Rank {
  std::int64_t energy;
  const std::uint32_t* words;
};
template <unsigned kSlots>
ISINGLASS_DEVICE int compare(const Rank& a, const Rank& b) {
  if (a.energy != b.energy) return a.energy < b.energy ? -1 : 1;
  for (unsigned k = 0; k < kSlots; ++k) {
    if (a.words[k] != b.words[k]) return a.words[k] < b.words[k] ? -1 : 1;
  }
  return 0;
}

ISINGLASS_DEVICE std::uint32_t below(std::uint32_t bits, std::uint32_t count) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits) * count) >> 32);
}

template <class Row, unsigned kSlots>
class PoolBreeder {
 public:
  ISINGLASS_DEVICE PoolBreeder(const BreedArgs& args, std::size_t index, WarpCosts<Row, kSlots>& walk,
                               std::int32_t largest_coupling, std::uint32_t* bins)
      : args_(args),
        task_(args.pools[index]),
        walk_(walk),
        largest_coupling_(largest_coupling),
        bins_(bins),
        energies_(args.energies + task_.first_member),
        words_(args.words + task_.first_member_word),
        here_(args.child_here + task_.first_holds / kWarp),
        best_(args.child_best + task_.first_holds / kWarp),
        holds_(args.holds + task_.first_holds),
        pool_(args.begins ? BredPool{} : args.bred[index]) {}

  /// Up to `moves` of tabu search.
  ISINGLASS_DEVICE void run(std::uint64_t moves) {
    if (args_.begins) order_reads();
    while (moves > 0 && pool_.ended == 0) {
      if (pool_.searching == 0 && spent()) {
        pool_.ended = 1;
        break;
      }
      breed(moves);
    }
  }
  ISINGLASS_DEVICE const BredPool& pool() const { return pool_; }

 private:
  ISINGLASS_DEVICE bool spent() const {
    return pool_.children >= task_.most_children || pool_.failures >= task_.most_failures || pool_.target_reached != 0;
  }

  ISINGLASS_DEVICE Rank read(unsigned r) const {
    return {args_.reads[task_.first_read + r].energy,
            args_.read_words + task_.first_read_word + std::size_t{kSlots} * r};
  }
  ISINGLASS_DEVICE Rank member(unsigned m) const { return {energies_[m], words_ + std::size_t{kSlots} * m}; }

  /// The distinct reads, in order, as many as the pool holds.
  ISINGLASS_DEVICE void order_reads() {
    unsigned distinct = 0;
    for (unsigned first = 0; first < task_.reads; first += kWarp) {
      const unsigned r = first + lane_index();
      const bool known = r >= task_.reads || repeats(r);
      if (!known) {
        const Rank mine = read(r);
        unsigned position = 0;
        for (unsigned other = 0; other < task_.reads; ++other) {
          position += compare<kSlots>(read(other), mine) < 0 && !repeats(other);
        }
        if (position < task_.size) {
          energies_[position] = mine.energy;
          for (unsigned k = 0; k < kSlots; ++k) words_[std::size_t{kSlots} * position + k] = mine.words[k];
        }
      }
      distinct += bit_count(ballot(!known));
    }
    sync_warp();
    pool_.members = distinct < task_.size ? distinct : task_.size;
    pool_.target_reached = energies_[0] <= task_.rules.target;
  }
  /// Whether an earlier read is the same.
  ISINGLASS_DEVICE bool repeats(unsigned r) const {
    for (unsigned other = 0; other < r; ++other) {
      if (compare<kSlots>(read(other), read(r)) == 0) return true;
    }
    return false;
  }

  /// Begins a child, or goes on with one; and takes it in when its search ends.
  ISINGLASS_DEVICE void breed(std::uint64_t& moves) {
    const bool resumes = pool_.searching != 0;
    const auto generation = static_cast<std::uint32_t>(resumes ? pool_.children - 1 : pool_.children);
    std::int64_t energy;
    if (resumes) {
      energy = walk_.begin([&](unsigned k) { return here_[k]; });
    } else {
      ++pool_.children;
      const SweepKey key = sweep_key(read_key(task_.seed ^ stream::crossover, task_.number), generation);
      const std::uint32_t size = pool_.members, first = below(random_bits(key, 0), size);
      const std::uint32_t step = size > 1 ? 1 + below(random_bits(key, 1), size - 1) : 0;
      WarpCross<Row, kSlots> crossing(walk_, largest_coupling_, bins_);
      energy = crossing.cross(member(first).words, member((first + step) % size).words, key);
    }
    WarpTabu<Row, kSlots> search(walk_, energy);
    if (resumes) search.restore(pool_.child, best_, holds_);
    sync_warp();
    const SweepKey holding = sweep_key(read_key(task_.seed ^ stream::tenure, task_.number), generation);
    const std::uint64_t before = search.progress().moves;
    const bool ended = search.search(task_.rules, holding, moves);
    moves -= search.progress().moves - before;
    pool_.searching = !ended;
    pool_.child = search.progress();
    if (ended) {
      ISINGLASS_UNROLL
      for (unsigned k = 0; k < kSlots; ++k) {
        const std::uint32_t word = search.best_word(k);
        if (lane_index() == 0) best_[k] = word;
      }
      sync_warp();
      pool_.moves += search.progress().moves;
      take_in({search.progress().best_energy, best_});
      return;
    }
    TabuProgress unused;
    search.save(unused, best_, holds_);
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      const std::uint32_t word = walk_.word(k);
      if (lane_index() == 0) here_[k] = word;
    }
  }

  /// A new child enters in its place, and the worst member of a full pool leaves.
  ISINGLASS_DEVICE void take_in(const Rank& child) {
    unsigned position = 0;
    bool known = false;
    for (unsigned first = 0; first < pool_.members; first += kWarp) {
      const unsigned m = first + lane_index();
      const int order = m < pool_.members ? compare<kSlots>(member(m), child) : 1;
      position += bit_count(ballot(order < 0));
      known |= any(order == 0);
    }
    const bool full = pool_.members == task_.size;
    if (known || (full && position == pool_.members)) {
      ++pool_.failures;
      return;
    }
    pool_.failures = 0;
    if (!full) ++pool_.members;
    sync_warp();  // every lane has compared before one overwrites
    insert(child, position);
    pool_.target_reached = energies_[0] <= task_.rules.target;
  }

  ISINGLASS_DEVICE void insert(const Rank& child, unsigned position) {
    // From the end, 32 members at a time move up by one.
    for (unsigned end = pool_.members; end > position + 1;
         end = end > position + 1 + kWarp ? end - kWarp : position + 1) {
      const unsigned to = end - 1 - lane_index();  // may wrap
      const bool moves = lane_index() < end - position - 1;
      std::int64_t energy = 0;
      std::uint32_t words[kSlots] = {};
      if (moves) {
        energy = energies_[to - 1];
        for (unsigned k = 0; k < kSlots; ++k) words[k] = words_[std::size_t{kSlots} * (to - 1) + k];
      }
      sync_warp();
      if (moves) {
        energies_[to] = energy;
        for (unsigned k = 0; k < kSlots; ++k) words_[std::size_t{kSlots} * to + k] = words[k];
      }
    }
    if (lane_index() == 0) {
      energies_[position] = child.energy;
      for (unsigned k = 0; k < kSlots; ++k) words_[std::size_t{kSlots} * position + k] = child.words[k];
    }
    sync_warp();
  }

  const BreedArgs& args_;
  const PoolTask task_;
  WarpCosts<Row, kSlots>& walk_;
  std::int32_t largest_coupling_;
  std::uint32_t* bins_;
  std::int64_t* energies_;
  std::uint32_t* words_;
  std::uint32_t* here_;
  std::uint32_t* best_;
  std::uint32_t* holds_;
  BredPool pool_;
};

template <class Row, unsigned kSlots>
ISINGLASS_DEVICE void breed_pools(const BreedArgs& args) {
  const BreedTask task = args.tasks[block_index()];
  const SmallModel model = args.models[args.pools[task.first].model];
  WarpCosts<Row, kSlots> walk(rows_of<Row, kSlots>(model), model.linear, model.n);
  auto* const bins = shared_arena<std::uint32_t>(args.bins) + kWarp * warp_index();
  for (unsigned p = warp_index(); p < task.pools; p += warps_in_block()) {
    const std::size_t index = task.first + p;
    PoolBreeder<Row, kSlots> breeder(args, index, walk, model.largest_coupling, bins);
    sync_warp();
    breeder.run(args.moves);
    if (lane_index() == 0) args.bred[index] = breeder.pool();
  }
}

}  // namespace

#define ISINGLASS_MEMETIC(Row, slots)                                                                     \
  ISINGLASS_KERNEL(fill_##Row##_##slots, FillArgs, 32 * kFillWarps) { fill_pool<std::Row, slots>(args); } \
  ISINGLASS_KERNEL(breed_##Row##_##slots, BreedArgs, 32 * kBreedWarps) { breed_pools<std::Row, slots>(args); }
#define ISINGLASS_MEMETIC_OF(Row) \
  ISINGLASS_MEMETIC(Row, 2)       \
  ISINGLASS_MEMETIC(Row, 4)       \
  ISINGLASS_MEMETIC(Row, 5)       \
  ISINGLASS_MEMETIC(Row, 8)
ISINGLASS_MEMETIC_OF(int8_t)
ISINGLASS_MEMETIC_OF(int16_t)
ISINGLASS_MEMETIC_OF(int32_t)

const Kernel* const fill_kernels[] = {
    &fill_int8_t_2,  &fill_int8_t_4,  &fill_int8_t_5,  &fill_int8_t_8,  &fill_int16_t_2, &fill_int16_t_4,
    &fill_int16_t_5, &fill_int16_t_8, &fill_int32_t_2, &fill_int32_t_4, &fill_int32_t_5, &fill_int32_t_8,
};
const Kernel* const breed_kernels[] = {
    &breed_int8_t_2,  &breed_int8_t_4,  &breed_int8_t_5,  &breed_int8_t_8,  &breed_int16_t_2, &breed_int16_t_4,
    &breed_int16_t_5, &breed_int16_t_8, &breed_int32_t_2, &breed_int32_t_4, &breed_int32_t_5, &breed_int32_t_8,
};

}  // namespace isinglass::cuda
