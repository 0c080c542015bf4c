#include "isinglass/memetic.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>

#include "isinglass/parallel.hpp"
#include "isinglass/pools.hpp"
#include "isinglass/random.hpp"
#include "isinglass/replicas.hpp"
#include "isinglass/schedule.hpp"

namespace isinglass {
namespace {

constexpr std::size_t kAttemptsPerSlice = std::size_t{1} << 18;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// Groups of variables in which two states differ, such that strong couplings are within groups: a state that takes
/// whole groups from the one and the rest from the other breaks few of them. With all couplings, groups do not see each
/// other at all, and the best choice for each is the best of all children (partition crossover: D. Whitley 2009).
class Clusters {
 public:
  explicit Clusters(const Qubo& qubo) : qubo_(qubo), place_(qubo.size(), -1) {}

  bool affordable(const std::vector<std::int32_t>& differing) const {
    const SparseRows& rows = qubo_.sparse_rows();
    std::size_t couplings = 0;
    for (std::int32_t i : differing) couplings += static_cast<std::size_t>(rows.start[at(i) + 1] - rows.start[at(i)]);
    return couplings <= PoolPlan::kGroupingWork * qubo_.size();
  }

  /// Joined by the strongest couplings between them, ties by the hash: `quarters` for every four variables, 0: by all.
  const std::vector<std::vector<std::int32_t>>& of(const std::vector<std::int32_t>& differing, std::uint32_t quarters,
                                                   SweepKey key) {
    const SparseRows& rows = qubo_.sparse_rows();
    for (std::size_t k = 0; k < differing.size(); ++k) place_[at(differing[k])] = static_cast<std::int32_t>(k);
    links_.clear();
    for (std::int32_t i : differing) {
      for (std::int64_t k = rows.start[at(i)]; k < rows.start[at(i) + 1]; ++k) {
        const Coupling& c = rows.entries[at(k)];
        if (c.neighbour <= i || place_[at(c.neighbour)] < 0) continue;
        links_.push_back(
            {std::abs(c.weight),
             random_bits(key, static_cast<std::uint32_t>(i) * 0x9e3779b1U + static_cast<std::uint32_t>(c.neighbour)),
             place_[at(i)], place_[at(c.neighbour)]});
      }
    }
    for (std::int32_t i : differing) place_[at(i)] = -1;
    const std::size_t joins = std::min(links_.size(), quarters == 0 ? links_.size() : differing.size() * quarters / 4);
    std::nth_element(links_.begin(), links_.begin() + static_cast<std::ptrdiff_t>(joins), links_.end());
    root_.resize(differing.size());
    std::iota(root_.begin(), root_.end(), 0);
    for (std::size_t k = 0; k < joins; ++k) root_[at(root(links_[k].first))] = root(links_[k].second);
    groups_.clear();
    index_.assign(differing.size(), -1);
    for (std::size_t k = 0; k < differing.size(); ++k) {
      std::int32_t& group = index_[at(root(static_cast<std::int32_t>(k)))];
      if (group < 0) {
        group = static_cast<std::int32_t>(groups_.size());
        groups_.emplace_back();
      }
      groups_[at(group)].push_back(differing[k]);
    }
    return groups_;
  }

 private:
  struct Link {
    std::int32_t strength;
    std::uint32_t tie;
    std::int32_t first, second;
    bool operator<(const Link& other) const {
      if (strength != other.strength) return strength > other.strength;
      if (tie != other.tie) return tie < other.tie;
      return first != other.first ? first < other.first : second < other.second;
    }
  };
  template <class Integer>
  static std::size_t at(Integer i) {
    return static_cast<std::size_t>(i);
  }
  std::int32_t root(std::int32_t k) {
    while (root_[at(k)] != k) k = root_[at(k)] = root_[at(root_[at(k)])];
    return k;
  }

  const Qubo& qubo_;
  std::vector<std::int32_t> place_, root_, index_;
  std::vector<Link> links_;
  std::vector<std::vector<std::int32_t>> groups_;
};

class Memetic {
 public:
  Memetic(const Qubo& qubo, const MemeticOptions& options, Control& control)
      : qubo_(qubo),
        options_(options),
        control_(control),
        n_(qubo.size()),
        plan_(qubo, options),
        anneal_layout_(choose_layout(qubo, PoolPlan::kReadsPerMember * options.pool_size)),
        tabu_layout_(choose_tabu_layout(qubo)),
        tenure_(options.tenure) {}

  Layout layout() const { return tabu_layout_; }

  /// Pool number p; it ends early when the control stops or a pool of a lower number has reached the target.
  Pool run(std::size_t p) {
    Pool pool;
    pool.size = plan_.size(p);
    auto searcher = take(pool.size + 1);
    fill(p, pool, *searcher);
    breed(p, pool, *searcher);
    pool.moves = searcher->moves() - pool.moves;
    give_back(std::move(searcher));
    if (pool.target_reached) {
      std::size_t lowest = first_hit_.load();
      while (p < lowest && !first_hit_.compare_exchange_weak(lowest, p)) {
      }
    }
    return pool;
  }

 private:
  std::unique_ptr<Tabu> take(std::size_t slots) {
    const std::lock_guard lock(mutex_);
    const auto fits = [slots](const std::unique_ptr<Tabu>& searcher) { return searcher->slots() >= slots; };
    const auto found = std::find_if(idle_.begin(), idle_.end(), fits);
    if (found == idle_.end()) return std::make_unique<Tabu>(qubo_, tabu_layout_, tenure_, slots);
    auto searcher = std::move(*found);
    idle_.erase(found);
    return searcher;
  }
  void give_back(std::unique_ptr<Tabu> searcher) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(searcher));
  }

  bool stop(std::size_t p) { return first_hit_.load(std::memory_order_relaxed) < p || control_.stop(); }

  Window window(std::size_t p) {
    if (!plan_.probed(p)) return wide_window(qubo_);
    std::call_once(probed_, [this] { window_ = probe_window(qubo_); });
    return window_;
  }

  void fill(std::size_t p, Pool& pool, Tabu& searcher) {
    const std::uint32_t sweeps = plan_.sweeps(p);
    const Window range = window(p);
    std::vector<float> t2(sweeps, 0);
    if (range.hot > 0) {
      const std::vector<double> temperatures = geometric(range.hot, range.cold, sweeps);
      std::transform(temperatures.begin(), temperatures.end(), t2.begin(), kernel_temperature);
    }
    const std::size_t step = capacity(anneal_layout_);
    const auto slice = static_cast<std::uint32_t>(std::max<std::size_t>(1, kAttemptsPerSlice / (n_ + 1) / step));
    std::vector<Member> found;
    if (p == 0 && options_.num_initial_states > 0) {
      for (std::size_t s = 0; s < options_.num_initial_states; ++s) {
        add(found, options_.initial_states + s * n_, searcher);
      }
    }
    std::vector<std::uint8_t> states(step * n_);
    const std::size_t reads = PoolPlan::kReadsPerMember * pool.size;
    for (std::size_t first = 0; first < reads && (first == 0 || !stop(p)); first += step) {
      const std::size_t count = std::min(step, reads - first);
      Replicas replicas(qubo_, anneal_layout_, options_.seed, (std::uint64_t{p} << 32) + first, count);
      replicas.begin_random();
      for (std::uint32_t k = 0; k < sweeps; k += slice) {
        replicas.sweep({k, std::min(slice, sweeps - k), t2.data() + k, nullptr, true});
        if (k + slice < sweeps && stop(p)) break;
      }
      replicas.return_to_best();
      replicas.quench();
      replicas.end(states.data());
      for (std::size_t r = 0; r < count; ++r) {
        Member member{replicas.energy(r), Words(words_of(n_)), 0, false};
        pack(states.data() + r * n_, n_, member.words.data());
        found.push_back(std::move(member));
      }
    }
    std::sort(found.begin(), found.end());
    const auto same = [](const Member& a, const Member& b) { return a.words == b.words; };
    found.erase(std::unique(found.begin(), found.end(), same), found.end());
    if (found.size() > pool.size) found.resize(pool.size);
    for (std::size_t m = 0; m < found.size(); ++m) found[m].slot = m;
    pool.members = std::move(found);
    pool.moves = searcher.moves();
    note(pool);
  }

  void add(std::vector<Member>& found, const std::uint8_t* state, Tabu& searcher) {
    Member member{0, Words(words_of(n_)), 0, false};
    pack(state, n_, member.words.data());
    member.energy = searcher.set(0, member.words.data());
    found.push_back(std::move(member));
  }

  void note(Pool& pool) {
    if (options_.trace) pool.trace.push_back(pool.best());
    pool.target_reached = pool.best() <= plan_.target();
  }

  void breed(std::size_t p, Pool& pool, Tabu& searcher) {
    const ReadKey crossing = read_key(options_.seed ^ stream::crossover, p);
    const ReadKey holding = read_key(options_.seed ^ stream::tenure, p);
    std::size_t free_slot = pool.size, failures = 0;
    Member child{0, Words(words_of(n_)), 0, false};
    std::vector<Member>& members = pool.members;
    Clusters clusters(qubo_);
    while (pool.children < plan_.most_children() && failures < plan_.most_failures(pool.size) && !pool.target_reached) {
      if (stop(p)) return;
      const auto generation = static_cast<std::uint32_t>(pool.children++);
      const SweepKey key = sweep_key(crossing, generation);
      const auto size = static_cast<std::uint32_t>(members.size());
      const std::uint32_t first = below(random_bits(key, 0), size);
      const std::uint32_t step = size > 1 ? 1 + below(random_bits(key, 1), size - 1) : 0;
      Member& parent = members[first];
      const Member& other = members[(first + step) % size];
      if (!parent.set) searcher.set(parent.slot, parent.words.data());
      parent.set = true;
      searcher.copy(free_slot, parent.slot);
      cross(searcher, free_slot, parent, other, key, clusters);
      child.energy = searcher.search(free_slot, sweep_key(holding, generation), plan_.patience(), kNoLimit,
                                     plan_.target(), control_);
      searcher.words(free_slot, child.words.data());
      child.slot = free_slot;
      child.set = true;
      const auto at = std::lower_bound(members.begin(), members.end(), child);
      const bool known = at != members.end() && at->words == child.words;
      if (known || (at == members.end() && members.size() == pool.size)) {
        ++failures;
      } else {
        failures = 0;
        const auto position = at - members.begin();
        if (members.size() == pool.size) {
          free_slot = members.back().slot;
          std::rotate(members.begin() + position, members.end() - 1, members.end());
          members[static_cast<std::size_t>(position)] = child;
        } else {
          members.insert(at, child);
          // Slots 0 .. size - 1 are taken, and the spare one was given away.
          std::vector<std::uint8_t> taken(pool.size + 1);
          for (const Member& member : members) taken[member.slot] = 1;
          free_slot = static_cast<std::size_t>(std::find(taken.begin(), taken.end(), 0) - taken.begin());
        }
      }
      note(pool);
    }
    pool.whole = true;
  }

  /// The slot holds a copy of the parent, and becomes the child.
  void cross(Tabu& searcher, std::size_t slot, const Member& parent, const Member& other, SweepKey key,
             Clusters& clusters) const {
    std::vector<std::int32_t> differing, taken;
    const std::uint32_t style = random_bits(key, 2);
    for (std::size_t w = 0; w < parent.words.size(); ++w) {
      const std::uint32_t mask = random_bits(key, static_cast<std::uint32_t>(w) + 3);
      for (std::uint32_t left = parent.words[w] ^ other.words[w]; left != 0; left &= left - 1) {
        const int bit = __builtin_ctz(left);
        const auto i = static_cast<std::int32_t>(32 * w) + bit;
        differing.push_back(i);
        if (mask >> bit & 1) taken.push_back(i);
      }
    }
    if (style >> 30 == 0 || !clusters.affordable(differing)) {
      searcher.flip(slot, taken);
      return;
    }
    // Group by group whatever lowers the energy; of equals, by a coin.
    const auto& groups = clusters.of(differing, style & 3, key);
    const SweepKey coins{key.k1, key.k0};
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::int64_t before = searcher.energy(slot), after = searcher.flip(slot, groups[g]);
      const bool heads = random_bits(coins, static_cast<std::uint32_t>(g)) >> 31;
      if (after > before || (after == before && heads)) searcher.flip(slot, groups[g]);
    }
  }

  static std::uint32_t below(std::uint32_t bits, std::uint32_t count) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits) * count) >> 32);
  }

  const Qubo& qubo_;
  const MemeticOptions& options_;
  Control& control_;
  const std::size_t n_;
  const PoolPlan plan_;
  const Layout anneal_layout_, tabu_layout_;
  const Tenure tenure_;
  std::once_flag probed_;
  Window window_;
  std::atomic<std::size_t> first_hit_{std::numeric_limits<std::size_t>::max()};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Tabu>> idle_;
};

}  // namespace

MemeticResult memetic(const Qubo& qubo, const MemeticOptions& options, Control& control) {
  const double begin_seconds = control.seconds();
  Memetic search(qubo, options, control);
  Harvest harvest(qubo, options);
  const std::size_t most = harvest.most();
  // Most runs that end by agreement end within a few pools.
  constexpr int kMostAhead = 4;
  const auto threads = static_cast<std::size_t>(std::max(
      1, harvest.by_agreement() && !harvest.by_clock() ? std::min(options.threads, kMostAhead) : options.threads));
  bool done = false;
  for (std::size_t first = 0; !done && first < most;) {
    // A wave is as wide as the threads; pools are then taken in order, and what comes after the last one is forgotten.
    const std::size_t count = std::min(threads, most - first);
    std::vector<Pool> pools(count);
    if (count == 1) {
      pools[0] = search.run(first);
    } else {
      parallel_for(count, options.threads, control, [&](std::size_t k) { pools[k] = search.run(first + k); });
      if (first == 0 && pools[0].members.empty()) pools[0] = search.run(0);
    }
    for (std::size_t k = 0; k < count && !harvest.done(); ++k) {
      if (pools[k].members.empty()) break;  // stopped before it began
      harvest.take(pools[k]);
    }
    first += count;
    done = harvest.done() || control.stop();
    if (options.report) {
      control.report(harvest.by_clock() ? std::min(1.0, (control.seconds() - begin_seconds) / options.until)
                                        : static_cast<double>(std::min(first, most)) / static_cast<double>(most));
    }
  }
  MemeticResult result = harvest.finish(control.reason());
  result.reads.layout = search.layout();
  result.reads.search_seconds = control.seconds() - begin_seconds;
  return result;
}

}  // namespace isinglass
