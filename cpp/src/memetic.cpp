#include "isinglass/memetic.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>

#include "isinglass/parallel.hpp"
#include "isinglass/random.hpp"
#include "isinglass/replicas.hpp"
#include "isinglass/schedule.hpp"

namespace isinglass {
namespace {

// Reads that are annealed for each member of a pool; a number of its own, whatever a vector holds.
constexpr std::size_t kReadsPerMember = 2;
constexpr std::size_t kAttemptsPerSlice = std::size_t{1} << 18;
// Later pools anneal longer, up to so many times: what the first ones did not find is worth it.
constexpr std::uint64_t kMostSweeps = 80;
// Couplings, by variables, that may be looked at to group what two states differ in.
constexpr std::size_t kGroupingWork = 128;
// Later pools are larger by the numbers of Luby, up to so many times.
constexpr std::uint64_t kMostEffort = 8;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

struct Member {
  std::int64_t energy;
  Words words;
  std::size_t slot;  // of the searcher
  bool set;          // the slot holds it

  bool operator<(const Member& other) const {
    return energy != other.energy ? energy < other.energy : words < other.words;
  }
};

/// Times a constant: 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ... Whatever effort a model needs, a share of about 1 / log of all
/// work goes to pools of that effort (M. Luby, A. Sinclair and D. Zuckerman 1993, "Optimal speedup of Las Vegas
/// algorithms").
std::uint64_t luby(std::uint64_t k) {
  for (++k;;) {
    std::uint64_t power = 1;
    while ((power << 1) - 1 < k) power <<= 1;
    if ((power << 1) - 1 == k) return power;
    k -= power - 1;
  }
}

struct Pool {
  std::size_t size = 0;         // of members, once it is full
  std::vector<Member> members;  // by energy, then bits
  std::vector<std::int64_t> trace;
  std::uint64_t children = 0, moves = 0;
  bool target_reached = false;
  bool whole = false;

  std::int64_t best() const { return members.front().energy; }
};

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
    return couplings <= kGroupingWork * qubo_.size();
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
        target_(integer_target(qubo, options.target_energy)),
        anneal_layout_(choose_layout(qubo, kReadsPerMember * options.pool_size)),
        tabu_layout_(choose_tabu_layout(qubo)),
        tenure_(options.tenure) {
    sweeps_ = std::min(n_ + n_ / 3 + 1, std::max<std::size_t>(200, n_ / 5 + 100));
    patience_ = options.patience > 0 ? options.patience : n_ + 50;
  }

  Layout layout() const { return tabu_layout_; }

  /// Pool number p; it ends early when the control stops or a pool of a lower number has reached the target.
  Pool run(std::size_t p) {
    Pool pool;
    pool.size = options_.pool_size * std::min(luby(p), kMostEffort);
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
    // What few variables hide is mostly found in less time than a probe takes, over the range that it would look at.
    constexpr std::size_t kWorthProbing = 64;
    if (p == 0 && n_ < kWorthProbing) return wide_window(qubo_);
    std::call_once(probed_, [this] { window_ = probe_window(qubo_); });
    return window_;
  }

  void fill(std::size_t p, Pool& pool, Tabu& searcher) {
    const auto sweeps = static_cast<std::uint32_t>(sweeps_ * std::min<std::uint64_t>(1 + 2 * p, kMostSweeps));
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
    const std::size_t reads = kReadsPerMember * pool.size;
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
    pool.target_reached = pool.best() <= target_;
  }

  void breed(std::size_t p, Pool& pool, Tabu& searcher) {
    const std::size_t limit = options_.generations > 0 ? options_.generations : kNoLimit;
    const ReadKey crossing = read_key(options_.seed ^ stream::crossover, p);
    const ReadKey holding = read_key(options_.seed ^ stream::tenure, p);
    std::size_t free_slot = pool.size, failures = 0;
    Member child{0, Words(words_of(n_)), 0, false};
    std::vector<Member>& members = pool.members;
    Clusters clusters(qubo_);
    while (pool.children < limit && !pool.target_reached) {
      if (options_.generations == 0 && failures >= 2 * pool.size) break;
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
      child.energy = searcher.search(free_slot, sweep_key(holding, generation), patience_, kNoLimit, target_, control_);
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
  const std::int64_t target_;
  const Layout anneal_layout_, tabu_layout_;
  const Tenure tenure_;
  std::uint64_t sweeps_, patience_;
  std::once_flag probed_;
  Window window_;
  std::atomic<std::size_t> first_hit_{std::numeric_limits<std::size_t>::max()};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Tabu>> idle_;
};

/// The best distinct states of all pools.
class Elite {
 public:
  explicit Elite(std::size_t keep) : keep_(keep) {}

  void add(std::vector<Member>& members) {
    std::vector<Member> merged;
    std::merge(std::make_move_iterator(best_.begin()), std::make_move_iterator(best_.end()),
               std::make_move_iterator(members.begin()), std::make_move_iterator(members.end()),
               std::back_inserter(merged));
    const auto same = [](const Member& a, const Member& b) { return a.words == b.words; };
    merged.erase(std::unique(merged.begin(), merged.end(), same), merged.end());
    if (merged.size() > keep_) merged.resize(keep_);
    best_ = std::move(merged);
  }
  const std::vector<Member>& members() const { return best_; }

  /// Adds neighbours by one flip while they belong among the best.
  void widen(const Qubo& qubo) {
    std::vector<Member>& best = best_;
    for (Member& member : best) member.set = false;  // from here on: its neighbours have been looked at
    for (auto next = best.begin(); next != best.end();
         next = std::find_if(best.begin(), best.end(), [](const Member& member) { return !member.set; })) {
      next->set = true;
      const Member centre = *next;
      for (std::size_t i = 0; i < qubo.size(); ++i) {
        Member neighbour{centre.energy + cost(qubo, centre.words, i), centre.words, 0, false};
        neighbour.words[i / 32] ^= 1U << (i % 32);
        const auto at = std::lower_bound(best.begin(), best.end(), neighbour);
        if (at != best.end() && at->words == neighbour.words) continue;
        if (at == best.end() && best.size() == keep_) continue;
        best.insert(at, std::move(neighbour));
        if (best.size() > keep_) best.pop_back();
      }
    }
  }

 private:
  static std::int64_t cost(const Qubo& qubo, const Words& words, std::size_t i) {
    const auto on = [&](std::size_t j) { return words[j / 32] >> (j % 32) & 1; };
    const SparseRows& rows = qubo.sparse_rows();
    std::int64_t field = qubo.linear()[i];
    for (std::int64_t k = rows.start[i]; k < rows.start[i + 1]; ++k) {
      const Coupling& c = rows.entries[static_cast<std::size_t>(k)];
      if (on(static_cast<std::size_t>(c.neighbour))) field += c.weight;
    }
    return on(i) ? -field : field;
  }

  std::size_t keep_;
  std::vector<Member> best_;
};

}  // namespace

MemeticResult memetic(const Qubo& qubo, const MemeticOptions& options, Control& control) {
  const double begin_seconds = control.seconds();
  const std::size_t n = qubo.size();
  MemeticResult result;
  Reads& reads = result.reads;
  Memetic search(qubo, options, control);
  reads.layout = search.layout();
  const bool by_agreement = options.restarts == 0;
  const bool by_clock = by_agreement && options.until > 0;
  const std::size_t most = by_clock       ? std::numeric_limits<std::size_t>::max()
                           : by_agreement ? kMostRestarts
                                          : options.restarts;
  Elite elite(options.keep);
  std::vector<double>& trace = reads.trace;
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
  std::uint64_t moves = 0;
  std::size_t agreeing = 0;
  // Most runs that end by agreement end within a few pools.
  constexpr int kMostAhead = 4;
  const auto threads = static_cast<std::size_t>(
      std::max(1, by_agreement && !by_clock ? std::min(options.threads, kMostAhead) : options.threads));
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
    for (std::size_t k = 0; k < count && !done; ++k) {
      Pool& pool = pools[k];
      if (pool.members.empty()) break;  // stopped before it began
      if (options.trace) {
        for (std::int64_t energy : pool.trace) {
          const double before = trace.empty() ? std::numeric_limits<double>::infinity() : trace.back();
          trace.push_back(std::min(before, static_cast<double>(energy) / qubo.scale() + qubo.view().offset));
        }
      }
      if (pool.best() < lowest) agreeing = 0;
      if (pool.best() <= lowest) ++agreeing;
      lowest = std::min(lowest, pool.best());
      elite.add(pool.members);
      moves += pool.moves;
      result.children += pool.children;
      reads.generations += pool.whole;
      reads.target_reached = pool.target_reached;
      done = pool.target_reached || !pool.whole || (by_agreement && !by_clock && agreeing == 2);
    }
    first += count;
    done |= control.stop();
    if (options.report) {
      control.report(by_clock ? std::min(1.0, (control.seconds() - begin_seconds) / options.until)
                              : static_cast<double>(std::min(first, most)) / static_cast<double>(most));
    }
  }
  if (options.widen) elite.widen(qubo);
  reads.stopped = reads.target_reached ? StopReason::none : control.reason();
  reads.count = elite.members().size();
  reads.states.resize(reads.count * n);
  reads.energies.resize(reads.count);
  reads.flips = {moves};
  for (std::size_t m = 0; m < reads.count; ++m) unpack(elite.members()[m].words.data(), n, reads.states.data() + m * n);
  energies(qubo.view(), reads.states.data(), reads.count, reads.energies.data());
  // An image that rounds may be off by its error: the caller's numbers decide.
  reads.target_reached =
      reads.target_reached && *std::min_element(reads.energies.begin(), reads.energies.end()) <= *options.target_energy;
  reads.search_seconds = control.seconds() - begin_seconds;
  return result;
}

}  // namespace isinglass
