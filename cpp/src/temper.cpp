#include "isinglass/temper.hpp"

#include <array>
#include <atomic>

#include "isinglass/ladder.hpp"

namespace isinglass {
namespace {

constexpr std::size_t kReplicas = kLadderReplicas;
constexpr std::size_t kAttemptsPerLook = std::size_t{1} << 20;  // a round of a large model looks at the control itself

/// The replicas of one read.
class TemperedRead {
 public:
  TemperedRead(const Qubo& qubo, Layout layout, const TemperOptions& options, std::size_t read)
      : qubo_(qubo), options_(options), read_(read) {
    const std::size_t step = std::min(capacity(layout), kReplicas);
    for (std::size_t first = 0; first < kReplicas; first += step) {
      groups_.emplace_back(std::make_unique<Replicas>(qubo, layout, options.seed, read * kReplicas + first,
                                                      std::min(step, kReplicas - first)));
    }
    const std::vector<double> temperatures = first_ladder(options.window, qubo.size());
    ladder_.begin(temperatures.data(), temperatures.size());
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
    ladder_.temperatures_of_replicas(t2.data());
    std::size_t first = 0;
    for (auto& group : groups_) {
      group->sweep_each(sweep, t2.data() + first);
      first += group->size();
    }
    std::array<std::int64_t, kReplicas> energy;
    std::size_t next = 0;
    for_replicas([&](const Replicas& group, std::size_t r) { energy[next++] = group.energy(r); });
    for (std::size_t rung = sweep % 2; rung + 1 < ladder_.rungs; rung += 2) {
      ladder_.exchange(options_.seed, read_, sweep, rung, energy.data());
    }
    ladder_.move_after(sweep, options_.num_sweeps);
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

  const Ladder& ladder() const { return ladder_; }

 private:
  template <class Visit>
  void for_replicas(Visit visit) const {
    for (const auto& group : groups_) {
      for (std::size_t r = 0; r < group->size(); ++r) visit(*group, r);
    }
  }

  const Qubo& qubo_;
  const TemperOptions& options_;
  std::size_t read_;
  std::vector<std::unique_ptr<Replicas>> groups_;
  Ladder ladder_;
};

}  // namespace

std::vector<double> first_ladder(const Window& window, std::size_t variables) {
  const std::size_t rungs = rungs_of(variables);
  return window.hot > 0 ? geometric(window.hot, window.cold, rungs) : std::vector<double>(rungs, 0.0);
}

void describe_ladder(const Ladder& ladder, Tempered& result) {
  result.ladder.assign(ladder.temperature, ladder.temperature + ladder.rungs);
  result.swap_rates.clear();
  for (std::size_t k = 0; k + 1 < ladder.rungs; ++k) {
    result.swap_rates.push_back(ladder.attempts[k] == 0 ? 0
                                                        : static_cast<double>(ladder.accepted[k]) /
                                                              static_cast<double>(ladder.attempts[k]));
  }
}

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
      TemperedRead tempered(qubo, reads.layout, options, read);
      tempered.begin();
      bool cut = control.reason() != StopReason::none;
      for (std::uint32_t sweep = 0; sweep < options.num_sweeps && !cut;) {
        const std::uint32_t round = std::min(options.num_sweeps - sweep, kSweepsPerRound);
        for (std::uint32_t k = 0; k < round && !cut; ++k, ++sweep) {
          tempered.sweep(sweep);
          cut = (k + 1) * n * kReplicas > kAttemptsPerLook && control.stop();
        }
        if (options.report) control.report((swept += round) / all_sweeps);
        cut = cut || control.stop() ||
              (options.target_energy && in_callers_units(tempered.best()) <= *options.target_energy);
      }
      reads.flips[read] = tempered.end(reads.states.data() + read * n);
      energies(qubo.view(), reads.states.data() + read * n, 1, reads.energies.data() + read);
      if (read == 0) describe_ladder(tempered.ladder(), result);
    });
  });
  return result;
}

}  // namespace isinglass
