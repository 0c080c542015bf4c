#include "isinglass/memetic.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>

#include "isinglass/breeding.hpp"
#include "isinglass/parallel.hpp"
#include "isinglass/pools.hpp"
#include "isinglass/random.hpp"
#include "isinglass/replicas.hpp"
#include "isinglass/schedule.hpp"

namespace isinglass {
namespace {

constexpr std::size_t kAttemptsPerSlice = std::size_t{1} << 18;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

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
    Breeder breeder(qubo_, options_, plan_, p, pool);
    auto searcher = take(pool.size + 1);
    const std::uint64_t before = searcher->moves();
    breeder.fill(reads(p, pool.size), *searcher);
    breed(p, pool, breeder, *searcher);
    pool.moves = searcher->moves() - before;
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

  /// What a pool of so many members is filled from.
  std::vector<Member> reads(std::size_t p, std::size_t size) {
    const std::uint32_t sweeps = plan_.sweeps(p);
    const std::vector<float> t2 = plan_.schedule(p, window(p));
    const std::size_t step = capacity(anneal_layout_);
    const auto slice = static_cast<std::uint32_t>(std::max<std::size_t>(1, kAttemptsPerSlice / (n_ + 1) / step));
    std::vector<Member> found;
    std::vector<std::uint8_t> states(step * n_);
    const std::size_t reads = PoolPlan::kReadsPerMember * size;
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
        found.push_back({replicas.energy(r), Words(words_of(n_)), 0, false});
        pack(states.data() + r * n_, n_, found.back().words.data());
      }
    }
    return found;
  }

  void breed(std::size_t p, Pool& pool, Breeder& breeder, Tabu& searcher) {
    const ReadKey holding = read_key(options_.seed ^ stream::tenure, breeder.number());
    Words words(words_of(n_));
    while (!breeder.spent()) {
      if (stop(p)) return;
      const std::size_t slot = breeder.cross(searcher);
      const std::int64_t energy = searcher.search(slot, sweep_key(holding, breeder.generation()), plan_.patience(),
                                                  kNoLimit, plan_.target(), control_);
      searcher.words(slot, words.data());
      breeder.take_in(energy, words.data(), true);
    }
    pool.whole = true;
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
