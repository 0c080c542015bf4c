#include "isinglass/temper.hpp"

#include <array>
#include <atomic>
#include <utility>

#include "isinglass/random.hpp"

namespace isinglass {
namespace {

constexpr std::size_t kReplicas = 16;
constexpr std::size_t kOneLadderFrom = 150;  // variables; below, sixteen temperatures stand too close: two ladders
constexpr std::uint32_t kFirstMove = 16;     // sweeps before the ladder first moves, then twice as many each time
constexpr std::uint32_t kSweepsPerRound = 64;
constexpr std::size_t kAttemptsPerLook = std::size_t{1} << 20;  // a round of a large model looks at the control itself
constexpr double kLn2 = 0.693147180559945309417;

/// The replicas of one read.
class Ladder {
 public:
  Ladder(const Qubo& qubo, Layout layout, const TemperOptions& options, std::size_t read)
      : qubo_(qubo), options_(options), read_(read), rungs_(qubo.size() < kOneLadderFrom ? kReplicas / 2 : kReplicas) {
    const std::size_t step = std::min(capacity(layout), kReplicas);
    for (std::size_t first = 0; first < kReplicas; first += step) {
      groups_.emplace_back(std::make_unique<Replicas>(qubo, layout, options.seed, read * kReplicas + first,
                                                      std::min(step, kReplicas - first)));
    }
    for (std::size_t k = 0; k < kReplicas; ++k) at_[k] = k;
    attempts_.assign(rungs_ - 1, 0);
    accepted_.assign(rungs_ - 1, 0);
    const Window& window = options.window;
    set_ladder(window.hot > 0 ? geometric(window.hot, window.cold, rungs_) : std::vector<double>(rungs_, 0.0));
  }

  void begin() {
    const std::size_t n = qubo_.size();
    for (auto& group : groups_) {
      if (options_.initial_states == nullptr) {
        group->begin_random();
        continue;
      }
      std::vector<std::uint8_t> states;
      for (std::size_t r = 0; r < group->size(); ++r) {
        const std::uint8_t* start = options_.initial_states + read_ * n;
        states.insert(states.end(), start, start + n);
      }
      group->begin(states.data());
    }
  }

  void sweep(std::uint32_t sweep) {
    std::array<float, kReplicas> t2;
    for (std::size_t k = 0; k < kReplicas; ++k) t2[at_[k]] = t2_[k % rungs_];
    std::size_t first = 0;
    for (auto& group : groups_) {
      group->sweep_each(sweep, t2.data() + first);
      first += group->size();
    }
    exchange(sweep);
    if (sweep + 1 == next_move_ && sweep + 1 <= options_.num_sweeps / 2) {
      move_ladder();
      next_move_ *= 2;
    }
  }

  std::int64_t best() const {
    std::int64_t lowest = groups_[0]->best(0);
    for_replicas([&](const Replicas& group, std::size_t r) { lowest = std::min(lowest, group.best(r)); });
    return lowest;
  }

  /// The best state, quenched, and all flips.
  std::uint64_t end(std::uint8_t* state) {
    const std::size_t n = qubo_.size();
    for (auto& group : groups_) {
      group->return_to_best();
      group->quench();
    }
    std::int64_t lowest = groups_[0]->energy(0);
    std::uint64_t flips = 0;
    for_replicas([&](const Replicas& group, std::size_t r) {
      lowest = std::min(lowest, group.energy(r));
      flips += group.flips(r);
    });
    bool found = false;
    for (auto& group : groups_) {
      std::vector<std::uint8_t> states(group->size() * n);
      group->end(states.data());
      for (std::size_t r = 0; r < group->size() && !found; ++r) {
        if (group->energy(r) != lowest) continue;
        std::copy_n(states.data() + r * n, n, state);
        found = true;
      }
    }
    return flips;
  }

  const std::vector<double>& temperatures() const { return temperatures_; }
  std::vector<double> swap_rates() const {
    std::vector<double> rates;
    for (std::size_t k = 0; k + 1 < rungs_; ++k) {
      rates.push_back(attempts_[k] == 0 ? 0 : static_cast<double>(accepted_[k]) / static_cast<double>(attempts_[k]));
    }
    return rates;
  }

 private:
  template <class Visit>
  void for_replicas(Visit visit) const {
    for (const auto& group : groups_) {
      for (std::size_t r = 0; r < group->size(); ++r) visit(*group, r);
    }
  }

  void set_ladder(std::vector<double> temperatures) {
    temperatures_ = std::move(temperatures);
    t2_.clear();
    beta_.clear();
    for (double t : temperatures_) {
      t2_.push_back(kernel_temperature(t));
      beta_.push_back(t > 0 ? 1 / t : 0);
    }
  }

  /// Pairs (0, 1), (2, 3) ... after even sweeps, (1, 2), (3, 4) ... after odd ones. Temperatures move, states do not.
  void exchange(std::uint32_t sweep) {
    std::array<std::int64_t, kReplicas> energy;
    std::size_t next = 0;
    for_replicas([&](const Replicas& group, std::size_t r) { energy[next++] = group.energy(r); });
    const SweepKey key = sweep_key(read_key(options_.seed ^ stream::exchange, read_), sweep);
    for (std::size_t ladder = 0; ladder < kReplicas; ladder += rungs_) {
      for (std::size_t k = sweep % 2; k + 1 < rungs_; k += 2) {
        const std::size_t hot = ladder + k, cold = hot + 1;
        // Both energies and their difference are below 2^53.
        const double rise = (beta_[k] - beta_[k + 1]) * static_cast<double>(energy[at_[cold]] - energy[at_[hot]]);
        const float u = neg_log2_uniform(random_bits(key, static_cast<std::uint32_t>(hot)));
        ++attempts_[k];
        if (rise <= static_cast<double>(u) * kLn2) {
          std::swap(at_[hot], at_[cold]);
          ++accepted_[k];
        }
      }
    }
  }

  /// Equal shares of the summed refusal rates, interpolated in beta (Syed, Bouchard-Cote, Deligiannidis, Doucet 2022,
  /// "Non-reversible parallel tempering: a scalable highly parallel MCMC scheme").
  void move_ladder() {
    std::vector<double> refused(1, 0.0);
    for (std::size_t k = 0; k + 1 < rungs_; ++k) {
      const double rate =
          (static_cast<double>(attempts_[k] - accepted_[k]) + 0.5) / (static_cast<double>(attempts_[k]) + 1);
      refused.push_back(refused.back() + rate);
    }
    std::vector<double> temperatures(temperatures_);
    std::size_t below = 0;
    for (std::size_t k = 1; k + 1 < rungs_; ++k) {
      const double share = refused.back() * static_cast<double>(k) / static_cast<double>(rungs_ - 1);
      while (refused[below + 1] < share) ++below;
      const double part = (share - refused[below]) / (refused[below + 1] - refused[below]);
      temperatures[k] = 1 / (beta_[below] + part * (beta_[below + 1] - beta_[below]));
    }
    if (beta_.back() > 0) set_ladder(std::move(temperatures));
    attempts_.assign(rungs_ - 1, 0);
    accepted_.assign(rungs_ - 1, 0);
  }

  const Qubo& qubo_;
  const TemperOptions& options_;
  std::size_t read_, rungs_;
  std::vector<std::unique_ptr<Replicas>> groups_;
  std::array<std::size_t, kReplicas> at_;  // replica at each rung of each ladder
  std::vector<double> temperatures_, beta_;
  std::vector<float> t2_;
  std::vector<std::uint64_t> attempts_, accepted_;
  std::uint32_t next_move_ = kFirstMove;
};

}  // namespace

Tempered temper(const Qubo& qubo, const TemperOptions& options, Control& control) {
  Tempered result;
  Reads& reads = result.reads;
  reads.layout = options.layout ? *options.layout : choose_layout(qubo, kReplicas);
  const std::size_t n = qubo.size();
  const double all_sweeps = static_cast<double>(options.num_sweeps) * static_cast<double>(options.num_reads);
  std::atomic<double> swept{0};
  const auto in_callers_units = [&](std::int64_t energy) {
    return static_cast<double>(energy) / qubo.scale() + qubo.view().offset;
  };
  run_generations(qubo, options, control, reads, [&](std::size_t first, std::size_t count) {
    return in_blocks(count, 1, options.threads, control, [&](std::size_t begin, std::size_t) {
      const std::size_t read = first + begin;
      Ladder ladder(qubo, reads.layout, options, read);
      ladder.begin();
      bool cut = control.reason() != StopReason::none;
      for (std::uint32_t sweep = 0; sweep < options.num_sweeps && !cut;) {
        const std::uint32_t round = std::min(options.num_sweeps - sweep, kSweepsPerRound);
        for (std::uint32_t k = 0; k < round && !cut; ++k, ++sweep) {
          ladder.sweep(sweep);
          cut = (k + 1) * n * kReplicas > kAttemptsPerLook && control.stop();
        }
        if (options.report) control.report((swept += round) / all_sweeps);
        cut = cut || control.stop() ||
              (options.target_energy && in_callers_units(ladder.best()) <= *options.target_energy);
      }
      reads.flips[read] = ladder.end(reads.states.data() + read * n);
      energies(qubo.view(), reads.states.data() + read * n, 1, reads.energies.data() + read);
      if (read == 0) {
        result.ladder = ladder.temperatures();
        result.swap_rates = ladder.swap_rates();
      }
    });
  });
  return result;
}

}  // namespace isinglass
