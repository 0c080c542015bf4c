#include "large_memetic.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "isinglass/breeding.hpp"
#include "isinglass/pools.hpp"
#include "isinglass/schedule.hpp"
#include "large_batch.hpp"
#include "large_tabu_kernels.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// A pool with what crosses its members.
struct Brood {
  Brood(const Qubo& qubo, const MemeticOptions& options, const PoolPlan& plan, std::size_t p)
      : number(p), breeder(qubo, options, plan, p, pool) {}
  Brood(const Brood&) = delete;
  Brood& operator=(const Brood&) = delete;

  /// The child in the slot goes where its search went, by the few rows that differ.
  void follow(const std::uint32_t* from, const std::uint32_t* to, std::size_t words) {
    std::vector<std::int32_t> flipped;
    for (std::size_t w = 0; w < words; ++w) {
      for (std::uint32_t left = from[w] ^ to[w]; left != 0; left &= left - 1) {
        flipped.push_back(static_cast<std::int32_t>(32 * w) + std::countr_zero(left));
      }
    }
    searcher->flip(slot, flipped);
  }

  std::size_t number;
  Pool pool;
  Breeder breeder;
  std::unique_ptr<Tabu> searcher;
  std::size_t slot = 0;  // of the child
};

class LargeMemetic {
 public:
  LargeMemetic(const Qubo& qubo, const MemeticOptions& options, const Placement& placement, Control& control)
      : qubo_(qubo),
        options_(options),
        placement_(placement),
        control_(control),
        n_(qubo.size()),
        words_(words_of(n_)),
        plan_(qubo, options),
        harvest_(qubo, options),
        model_(placement.device),
        rows_(model_, qubo) {
    model_.allocate();
    rows_.fill();
    model_.upload();
    model_.wait();
  }

  MemeticResult run() {
    for (std::size_t first = 0; !harvest_.done() && first < harvest_.most() && (first == 0 || !control_.stop());) {
      const std::size_t count = ahead(first);
      if (!window_ && plan_.probed(first + count - 1)) window_ = probe_window(qubo_);
      std::vector<std::unique_ptr<Brood>> wave;
      for (std::size_t p = first; p < first + count; ++p) {
        wave.push_back(std::make_unique<Brood>(qubo_, options_, plan_, p));
      }
      fill(wave);
      breed(wave);
      const bool stopped = control_.reason() != StopReason::none;
      bool over = false;
      for (std::size_t k = 0; k < count && !over; ++k) {
        Pool& pool = wave[k]->pool;
        harvest_.take(pool);
        // All that a stop cut short has found something.
        over = pool.target_reached || (harvest_.done() && !stopped);
      }
      first += count;
      if (options_.report) {
        control_.report(harvest_.by_clock() ? std::min(1.0, control_.seconds() / options_.until)
                                            : static_cast<double>(std::min(first, harvest_.most())) /
                                                  static_cast<double>(harvest_.most()));
      }
    }
    return harvest_.finish(control_.reason());
  }

 private:
  /// Pools that are searched at once, a block each: all that are wanted; where the search ends by agreement or by the
  /// clock, as many as there have been, since the last of a wave may take much longer than the first.
  std::size_t ahead(std::size_t first) const {
    const std::size_t blocks = std::max<std::size_t>(2, static_cast<std::size_t>(model_.info().multiprocessors));
    const std::size_t left = harvest_.most() - first;
    return std::min({harvest_.by_agreement() ? std::max<std::size_t>(2, first) : left, left, blocks});
  }

  /// Anneals the reads of all pools in one launch.
  void fill(std::vector<std::unique_ptr<Brood>>& wave) {
    std::vector<LargeReplica> replicas;
    std::vector<float> schedules;
    std::uint32_t most_sweeps = 1;
    for (const auto& brood : wave) {
      const std::size_t p = brood->number;
      const std::vector<float> t2 = plan_.schedule(p, plan_.probed(p) ? *window_ : wide_window(qubo_));
      for (std::size_t r = 0; r < PoolPlan::kReadsPerMember * brood->pool.size; ++r) {
        replicas.push_back({std::uint64_t{p} << 32 | r, static_cast<std::uint32_t>(schedules.size()),
                            static_cast<std::uint32_t>(t2.size())});
      }
      schedules.insert(schedules.end(), t2.begin(), t2.end());
      most_sweeps = std::max(most_sweeps, static_cast<std::uint32_t>(t2.size()));
    }
    Batch batch(placement_.device);
    const auto t2 = batch.input<float>(schedules.size());
    const std::size_t count = replicas.size();
    const LargeReplicas reads(batch, rows_, options_.seed, std::move(replicas), nullptr, 1);
    batch.allocate();
    reads.fill();
    std::ranges::copy(schedules, batch.host(t2).begin());
    batch.upload();
    const auto launch = [&](std::uint64_t sweep, std::uint64_t more, bool last) {
      reads.launch({batch.device(t2), nullptr, nullptr, static_cast<std::uint32_t>(sweep),
                    static_cast<std::uint32_t>(more), sweep == 0, true, last});
    };
    const std::uint64_t swept =
        in_slices(batch, most_sweeps, first_slice(placement_, n_ * count, n_), control_,
                  [&](std::uint64_t sweep, std::uint64_t more) { launch(sweep, more, sweep + more == most_sweeps); });
    if (swept < most_sweeps) launch(swept, 0, true);
    batch.download();
    batch.wait();
    std::vector<std::size_t> first_of;
    std::size_t next = 0;
    for (const auto& brood : wave) {
      first_of.push_back(next);
      next += PoolPlan::kReadsPerMember * brood->pool.size;
    }
    on_threads(wave.size(), options_.threads, [&](std::size_t k) {
      Brood& brood = *wave[k];
      std::vector<Member> found;
      for (std::size_t r = first_of[k]; r < first_of[k] + PoolPlan::kReadsPerMember * brood.pool.size; ++r) {
        const std::uint32_t* const words = reads.words(r);
        found.push_back({reads.record(r).energy, Words(words, words + words_), 0, false});
      }
      brood.searcher = std::make_unique<Tabu>(qubo_, choose_tabu_layout(qubo_), options_.tenure, brood.pool.size + 1);
      brood.breeder.fill(std::move(found), *brood.searcher);
    });
  }

  /// The children of all pools, one of each at a time: a launch walks all their searches, and where one has ended the
  /// host takes its child in and crosses the next.
  void breed(std::vector<std::unique_ptr<Brood>>& wave) {
    const std::size_t count = wave.size();
    Batch batch(placement_.device);
    const auto given = batch.input<std::uint32_t>(count * words_);
    const auto tasks = batch.in_out<LargeTabuTask>(count);
    const auto progress = batch.output<TabuProgress>(count);
    const auto bests = batch.output<std::uint32_t>(count * words_);
    const auto states = batch.scratch<std::uint32_t>(count * words_);
    const auto holds = batch.scratch<std::uint32_t>(count * field_count(n_));
    const auto fields = batch.scratch<std::byte>(count * field_bytes(n_, rows_.narrow()));
    batch.allocate();
    const LargeTabuArgs args{rows_.device(),
                             {plan_.patience(), kNoLimit, plan_.target(), options_.tenure.low, options_.tenure.spread},
                             options_.seed,
                             batch.device(tasks),
                             batch.device(given),
                             batch.device(progress),
                             batch.device(states),
                             batch.device(bests),
                             batch.device(holds),
                             batch.device(fields),
                             static_cast<std::uint32_t>(moves_of_launch())};
    const auto threads = tabu_threads(n_);
    std::vector<std::uint8_t> searching(count);
    for (;;) {
      const bool stopped = control_.stop();
      const auto reached = [](const std::unique_ptr<Brood>& brood) { return brood->pool.target_reached; };
      const auto hit = static_cast<std::size_t>(std::ranges::find_if(wave, reached) - wave.begin());
      on_threads(count, options_.threads, [&](std::size_t k) {
        Brood& brood = *wave[k];
        LargeTabuTask& task = batch.host(tasks)[k];
        std::uint32_t* const start = batch.host(given).data() + k * words_;
        if (searching[k] != 0 && (stopped || task.turn == TabuTurn::rests)) {
          const TabuProgress& end = batch.host(progress)[k];
          const std::uint32_t* const best = batch.host(bests).data() + k * words_;
          brood.follow(start, best, words_);
          brood.breeder.take_in(end.best_energy, best, true);
          brood.pool.moves += end.moves;
          searching[k] = 0;
        }
        // What follows the first pool that has reached the target is not wanted any more.
        if (k > hit) searching[k] = 0;
        if (searching[k] != 0) return;
        task.turn = TabuTurn::rests;
        brood.pool.whole = brood.breeder.spent();
        if (brood.pool.whole || stopped || k > hit) return;
        brood.slot = brood.breeder.cross(*brood.searcher);
        brood.searcher->words(brood.slot, start);
        task = {brood.breeder.number(), brood.breeder.generation(),
                brood.pool.children == 1 ? TabuTurn::first : TabuTurn::begins};
        searching[k] = 1;
      });
      if (std::ranges::count(searching, 1) == 0) break;
      batch.upload();
      batch.launch(rows_.pick(large_tabu_kernels),
                   {static_cast<unsigned>(count), threads, large_tabu_bytes(n_, rows_.narrow())}, args);
      batch.download();
      batch.wait();
    }
  }

  /// Of each search. A part of what a child takes: one that ends waits for the others' launch to end.
  std::uint64_t moves_of_launch() const {
    constexpr std::uint64_t kFewest = 64, kMost = 1 << 12;  // some milliseconds
    return placement_.slice > 0 ? placement_.slice : std::clamp(plan_.patience() / 4, kFewest, kMost);
  }

  const Qubo& qubo_;
  const MemeticOptions& options_;
  const Placement& placement_;
  Control& control_;
  std::size_t n_, words_;
  PoolPlan plan_;
  Harvest harvest_;
  std::optional<Window> window_;  // of the pools that are probed
  Batch model_;
  LargeRows rows_;
};

}  // namespace

MemeticResult large_memetic(const Qubo& qubo, const MemeticOptions& options, const Placement& placement,
                            Control& control) {
  const double begin_seconds = control.seconds();
  MemeticResult found = LargeMemetic(qubo, options, placement, control).run();
  found.reads.search_seconds = control.seconds() - begin_seconds;
  return found;
}

}  // namespace isinglass::cuda
