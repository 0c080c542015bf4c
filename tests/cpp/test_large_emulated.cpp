// Kernel logic tests of the kernels for one large model: emulated kernels against the CPU, bit for bit.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "check.hpp"
#include "emulated.hpp"
#include "isinglass/schedule.hpp"
#include "large_memetic.hpp"
#include "large_tabu.hpp"
#include "large_walks.hpp"
#include "model.hpp"
#include "sparse_walks.hpp"

namespace isinglass::cuda {
namespace {

AnnealOptions anneal_options(double hot, std::size_t reads, std::size_t sweeps) {
  AnnealOptions options;
  options.num_reads = reads;
  options.seed = 7;
  for (double t : geometric(hot, hot / 50, sweeps)) options.t2.push_back(kernel_temperature(t));
  return options;
}

/// From cold to hot, so that the best state is not the last.
AnnealOptions heating(double hot, std::size_t reads, std::size_t sweeps) {
  AnnealOptions options = anneal_options(hot, reads, sweeps);
  std::ranges::reverse(options.t2);
  return options;
}

/// In both forms, whatever the model.
void check_anneal(const Qubo& qubo, const AnnealOptions& options, const Placement& placement = {}) {
  Control control(kNoLimit), other(kNoLimit);
  const Reads expected = anneal(qubo, options, control);
  check_equal(large_anneal(qubo, options, placement, other), expected);
  Placement spread = placement;
  for (unsigned parts : {1U, 3U}) {
    spread.parts = parts;
    check_equal(sparse_anneal(qubo, options, spread, other), expected);
  }
}

}  // namespace

TEST(emulated_large_anneal_equals_the_cpu) {
  for (std::int64_t largest : {9, 300, 70000}) {
    for (std::size_t n : {1U, 15U, 33U, 64U, 530U}) {
      const Model model(n, largest, n > 100 ? 5 : 1);
      check_anneal(model.qubo, anneal_options(static_cast<double>(2 * largest), n > 100 ? 1 : 3, n > 100 ? 3 : 8));
    }
  }
}

TEST(emulated_large_searches_of_narrow_rows_and_wide_fields_equal_the_cpu) {
  for (const auto& [n, largest] : {std::pair<std::size_t, std::int64_t>{1200, 127}, {480, 300}}) {
    const Model model(n, largest);
    CHECK(model.qubo.worst_field() > 32767 && model.qubo.largest_coupling() < 301);
    Control control(kNoLimit), other(kNoLimit);
    const AnnealOptions options = anneal_options(static_cast<double>(largest), 1, 2);
    check_equal(large_anneal(model.qubo, options, {.slice = 1}, other), anneal(model.qubo, options, control));
    TabuOptions moves;
    moves.patience = moves.max_moves = 20;
    moves.tenure = default_tenure(n);
    check_equal(large_tabu(model.qubo, moves, {.slice = 7}, other), tabu(model.qubo, moves, control));
  }
}

TEST(emulated_sparse_anneal_by_levels_equals_the_cpu) {
  const Model model(200, 20, 41);
  Control control(kNoLimit), other(kNoLimit);
  const AnnealOptions options = anneal_options(40, 40, 6);
  const Reads expected = anneal(model.qubo, options, control);
  check_equal(sparse_anneal(model.qubo, options, Placement{}, other), expected);
  const auto spread = [&] { return sparse_anneal(model.qubo, options, {.parts = 2}, other).states; };
  check_in_any_order(spread, expected.states);
}

TEST(emulated_sparse_anneal_in_any_order_and_without_its_barriers) {
  const Model model(200, 20, 41);
  const AnnealOptions options = heating(40, 3, 3);
  Control control(kNoLimit);
  const std::vector<std::uint8_t> expected = anneal(model.qubo, options, control).states;
  const auto run = [&] { return sparse_anneal(model.qubo, options, {.slice = 2}, control).states; };
  check_in_any_order(run, expected);
  CHECK(check_every_barrier(run, expected) == 9);
  // Stopped after the first launch, the last one has no sweeps.
  Control over(0);
  const auto cut = [&] { return sparse_anneal(model.qubo, options, {.slice = 2}, over).states; };
  check_every_barrier(cut, cut());
}

TEST(emulated_large_anneal_by_several_warps_equals_the_cpu) {
  const Model model(2100, 9, 97);
  check_anneal(model.qubo, anneal_options(10, 1, 3));
}

TEST(emulated_large_anneal_keeps_every_option) {
  const Model model(40, 20);
  const std::vector<std::uint8_t> states = some_states(130 * 40);
  AnnealOptions options = anneal_options(40, 3, 6);
  options.initial_states = states.data();
  check_anneal(model.qubo, options);
  options.quench = false;
  check_anneal(model.qubo, options);
  options.t2.clear();
  check_anneal(model.qubo, options);
  options.quench = true;
  check_anneal(model.qubo, options);
  options = anneal_options(40, 130, 2);
  Control control(kNoLimit);
  const Reads all = anneal(model.qubo, options, control);
  options.target_energy = *std::min_element(all.energies.begin() + 64, all.energies.begin() + 128);
  check_anneal(model.qubo, options);
  check_anneal(model.qubo, anneal_options(40, 3, 9), {.slice = 2});
  for (const auto& form : {large_anneal, sparse_anneal}) {
    Control over(0);
    const Reads cut = form(model.qubo, anneal_options(40, 3, 9), {.slice = 2}, over);
    CHECK(cut.count == 3 && cut.stopped == StopReason::time_limit && cut.generations == 0);
  }
}

TEST(emulated_large_anneal_in_any_order_and_without_its_barriers) {
  const Model model(2049, 9, 511);  // two warps, and a last word that seldom flips
  const AnnealOptions options = heating(3, 1, 3);
  Control control(kNoLimit);
  const std::vector<std::uint8_t> expected = anneal(model.qubo, options, control).states;
  const auto run = [&] { return large_anneal(model.qubo, options, {.slice = 2}, control).states; };
  check_in_any_order(run, expected);
  CHECK(check_every_barrier(run, expected) == 8);
}

TEST(emulated_large_temper_in_both_forms_equals_the_cpu) {
  for (std::size_t n : {33U, 151U}) {
    const Model model(n, 20, n > 100 ? 7 : 1);
    const std::vector<std::uint8_t> states = some_states(3 * n);
    TemperOptions options;
    options.num_reads = 3;  // in lanes: one block and a half
    options.num_sweeps = n > 100 ? 33 : 130;
    options.seed = 3;
    options.window = {200, 4};
    for (const bool given : {false, true}) {
      options.initial_states = given ? states.data() : nullptr;
      if (given) options.target_energy = -1;
      Control control(kNoLimit), other(kNoLimit);
      const Tempered expected = temper(model.qubo, options, control);
      for (const auto& [form, parts] : {std::pair{&large_temper, 0U}, {&sparse_temper, 1U}, {&sparse_temper, 3U}}) {
        const Tempered found = form(model.qubo, options, {.slice = 7, .parts = parts}, other);
        check_equal(found.reads, expected.reads);
        CHECK(found.ladder == expected.ladder && found.swap_rates == expected.swap_rates);
      }
    }
  }
}

TEST(emulated_sparse_temper_in_any_order_and_without_its_barriers) {
  const Model model(160, 20, 37);
  TemperOptions options;
  options.num_reads = 2;
  options.num_sweeps = 5;
  options.seed = 3;
  options.window = {200, 4};
  Control control(kNoLimit), other(kNoLimit);
  const Tempered expected = temper(model.qubo, options, control);
  const auto run = [&] { return sparse_temper(model.qubo, options, Placement{}, other).reads.states; };
  check_in_any_order(run, expected.reads.states);
  CHECK(check_every_barrier(run, expected.reads.states) >= 8);
}

TEST(emulated_large_tabu_equals_the_cpu) {
  for (std::int64_t largest : {9, 300, 70000}) {
    for (std::size_t n : {1U, 15U, 33U, 100U, 530U}) {
      const Model model(n, largest);
      const std::vector<std::uint8_t> states = some_states(2 * n);
      TabuOptions options;
      options.num_reads = n > 200 ? 1 : 2;
      options.patience = n > 200 ? 20 : 60;
      options.max_moves = 300;
      options.tenure = n == 33 ? Tenure{60, 5} : default_tenure(n);
      options.seed = 5 + n;
      options.trace = true;
      if (n == 100) options.initial_states = states.data();
      Control control(kNoLimit), other(kNoLimit);
      check_equal(large_tabu(model.qubo, options, {.slice = 16}, other), tabu(model.qubo, options, control));
    }
  }
}

TEST(emulated_large_temper_in_any_order) {
  const Model model(33, 20);
  TemperOptions options;
  options.num_sweeps = 20;
  options.window = {200, 4};
  Control control(kNoLimit);
  const std::vector<std::uint8_t> expected = temper(model.qubo, options, control).reads.states;
  const auto run = [&] { return large_temper(model.qubo, options, {.slice = 7}, control).reads.states; };
  check_in_any_order(run, expected);
  check_every_barrier(run, expected);
}

TEST(emulated_large_tabu_in_any_order_and_without_its_barriers) {
  const Model model(600, 9, 7);  // two warps
  TabuOptions options;
  options.patience = options.max_moves = 40;
  options.tenure = default_tenure(600);
  Control control(kNoLimit), other(kNoLimit);
  const Reads expected = tabu(model.qubo, options, control);
  const auto run = [&] { return large_tabu(model.qubo, options, {.slice = 16}, other).states; };
  check_in_any_order(run, expected.states);
  CHECK(check_every_barrier(run, expected.states) >= 4);
}

MemeticOptions pools_of(std::size_t n) {
  MemeticOptions options;
  options.pool_size = 3;
  options.patience = 12;
  options.generations = 5;
  options.restarts = 3;
  options.keep = 4;
  options.tenure = default_tenure(n);
  options.seed = 5 + n;
  return options;
}

void check_memetic(const Qubo& qubo, const MemeticOptions& options, const Placement& placement = {}) {
  Control control(kNoLimit), other(kNoLimit);
  const MemeticResult expected = memetic(qubo, options, control);
  const MemeticResult found = large_memetic(qubo, options, placement, other);
  check_equal(found.reads, expected.reads);
  CHECK(found.children == expected.children);
}

TEST(emulated_large_memetic_equals_the_cpu) {
  for (std::int64_t largest : {9, 300, 70000}) {
    for (std::size_t n : {1U, 15U, 33U, 70U}) check_memetic(Model(n, largest).qubo, pools_of(n), {.slice = 7});
  }
}

TEST(emulated_large_memetic_keeps_every_option) {
  const Model model(40, 20, 3);
  const std::vector<std::uint8_t> states = some_states(5 * 40);
  MemeticOptions options = pools_of(40);
  options.initial_states = states.data();
  options.num_initial_states = 5;
  options.trace = options.widen = true;
  options.keep = 30;
  check_memetic(model.qubo, options);
  options = pools_of(40);
  options.generations = options.restarts = 0;
  options.threads = 2;
  check_memetic(model.qubo, options);
  Control control(kNoLimit);
  const MemeticResult all = memetic(model.qubo, options, control);
  options.restarts = 4;
  options.target_energy = all.reads.energies[0];
  check_memetic(model.qubo, options);
  options.target_energy = all.reads.energies[0] + 8;
  check_memetic(model.qubo, options);
  for (double seconds : {0.0, 0.05}) {
    options = pools_of(40);
    options.generations = options.restarts = 0;
    options.until = seconds;
    options.patience = 100000;
    Control over(seconds);
    const MemeticResult cut = large_memetic(model.qubo, options, {.slice = 20}, over);
    CHECK(cut.reads.count > 0 && cut.reads.stopped == StopReason::time_limit);
  }
}

TEST(emulated_large_memetic_of_several_warps_in_any_order_and_without_its_barriers) {
  const Model model(530, 9, 5);
  MemeticOptions options = pools_of(530);
  options.pool_size = 1;
  options.generations = 2;
  options.restarts = 1;
  Control control(kNoLimit), other(kNoLimit);
  const MemeticResult expected = memetic(model.qubo, options, control);
  const auto run = [&] { return large_memetic(model.qubo, options, {.slice = 5}, other).reads.states; };
  check_in_any_order(run, expected.reads.states);
  check_every_barrier(run, expected.reads.states);
}

}  // namespace isinglass::cuda
