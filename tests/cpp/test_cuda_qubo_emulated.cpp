// Kernel logic tests: annealing and tempering on host emulation against the CPU, with every barrier left out in turn.
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "anneal_batch.hpp"
#include "emulated.hpp"
#include "temper_batch.hpp"

namespace isinglass::cuda {
namespace {

/// A dense model with couplings up to `largest`.
struct Model {
  Model(std::size_t n, std::int32_t largest) : linear(n), dense(n * n) {
    std::mt19937 random(static_cast<std::uint32_t>(n));
    const auto draw = [&] {
      return static_cast<double>(static_cast<std::int32_t>(random() % (2 * largest + 1)) - largest);
    };
    for (double& a : linear) a = draw();
    for (double& w : dense) w = draw();
    QuboView view;
    view.n = n;
    view.linear = linear;
    view.dense = dense.data();
    qubo.emplace(view, std::nullopt);
  }
  std::vector<double> linear, dense;
  std::optional<Qubo> qubo;
};

struct Answer {
  explicit Answer(const Reads& reads) : states(reads.states), energies(reads.energies), flips(reads.flips) {}
  friend bool operator==(const Answer&, const Answer&) = default;
  std::vector<std::uint8_t> states;
  std::vector<double> energies;
  std::vector<std::uint64_t> flips;
};

AnnealOptions annealing() {
  AnnealOptions options;
  options.num_reads = 3;
  options.seed = 5;
  options.t2 = {40.0f, 20.0f, 8.0f, 2.0f};
  return options;
}

TemperOptions tempering() {
  TemperOptions options;
  options.seed = 6;
  options.num_sweeps = 40;  // the ladder moves after the sixteenth
  options.window = {40, 2};
  return options;
}

Control free_control() { return Control(std::numeric_limits<double>::infinity()); }

Answer emulated_anneal(const Qubo& qubo, Placement placement) {
  Control control = free_control();
  const AnnealJob job{&qubo, annealing()};
  return Answer(anneal(std::span(&job, 1), placement, 1, control).at(0));
}
Answer cpu_anneal(const Qubo& qubo) {
  Control control = free_control();
  return Answer(isinglass::anneal(qubo, annealing(), control));
}
Answer emulated_temper(const Qubo& qubo, Placement placement) {
  Control control = free_control();
  const TemperJob job{&qubo, tempering()};
  return Answer(temper(std::span(&job, 1), placement, 1, control).at(0).reads);
}
Answer cpu_temper(const Qubo& qubo) {
  Control control = free_control();
  return Answer(isinglass::temper(qubo, tempering(), control).reads);
}

}  // namespace

TEST(emulated_anneal_equals_cpu_in_any_order) {
  for (const auto& [n, largest] : {std::pair{1, 3}, {37, 20}, {64, 3000}, {100, 100}, {130, 100000}, {161, 90}}) {
    const Model model(static_cast<std::size_t>(n), largest);
    const Answer expected = cpu_anneal(*model.qubo);
    for (unsigned warps : {1U, 2U, 5U}) {
      check_in_any_order([&] { return emulated_anneal(*model.qubo, {.warps = warps, .slice = 3}); }, expected);
    }
  }
}

TEST(emulated_anneal_needs_every_barrier) {
  const Model model(70, 20);
  // In slices, since what a launch leaves in memory is guarded too; that one shows as a race alone.
  const auto run = [&] { return emulated_anneal(*model.qubo, {.warps = 3, .slice = 2}); };
  CHECK(check_every_barrier(run, cpu_anneal(*model.qubo)) == 2);
}

TEST(emulated_temper_equals_cpu_in_any_order) {
  for (const auto& [n, largest] : {std::pair{37, 20}, {64, 3000}, {40, 100000}, {161, 90}}) {
    const Model model(static_cast<std::size_t>(n), largest);
    const Answer expected = cpu_temper(*model.qubo);
    check_in_any_order([&] { return emulated_temper(*model.qubo, {.slice = 17}); }, expected);
  }
}

TEST(emulated_temper_rests_once_the_target_is_reached) {
  const Model model(8, 20);
  TemperOptions options = tempering();
  options.num_sweeps = 400;
  options.target_energy = 1e6;
  const TemperJob job{&*model.qubo, options};
  Control control = free_control();
  const Answer expected(isinglass::temper(*model.qubo, options, control).reads);
  // The second launch finds the target reached, and is not the last.
  const auto run = [&] { return Answer(temper(std::span(&job, 1), {.slice = 64}, 1, control).at(0).reads); };
  check_in_any_order(run, expected);
  check_every_barrier(run, expected);
}

TEST(emulated_temper_needs_every_barrier) {
  const Model model(37, 20);
  const auto run = [&] { return emulated_temper(*model.qubo, {.slice = 20}); };
  CHECK(check_every_barrier(run, cpu_temper(*model.qubo)) == 6);
}

}  // namespace isinglass::cuda
