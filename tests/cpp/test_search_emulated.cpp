// Kernel logic tests of tabu and memetic batches: emulated kernels against the CPU, bit for bit.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "check.hpp"
#include "driver_emulated.hpp"
#include "emulated.hpp"
#include "memetic.hpp"
#include "model.hpp"
#include "tabu.hpp"

namespace isinglass::cuda {
namespace {

// --- tabu ------------------------------------------------------------------------------------------------------------

TabuOptions tabu_options(std::size_t n, std::size_t reads, std::uint64_t patience) {
  TabuOptions options;
  options.num_reads = reads;
  options.patience = patience;
  options.max_moves = 700;
  options.tenure = default_tenure(n);
  options.seed = 5 + n;
  options.trace = true;
  return options;
}

/// One batch of all jobs against one call to the CPU for each.
void check_batch(const std::vector<TabuJob>& jobs) {
  Control control(kNoLimit);
  const std::vector<Reads> found = tabu(jobs, Placement{}, control);
  CHECK(found.size() == jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    Control other(kNoLimit);
    check_equal(found[j], isinglass::tabu(*jobs[j].qubo, jobs[j].options, other));
  }
}

}  // namespace

TEST(emulated_tabu_of_every_shape_equals_the_cpu) {
  std::vector<std::unique_ptr<Model>> models;
  std::vector<TabuJob> jobs;
  for (std::int64_t largest : {9, 300, 70000}) {
    for (std::size_t n : {1U, 2U, 33U, 64U, 65U, 100U, 130U, 161U}) {
      models.push_back(std::make_unique<Model>(n, largest));
      jobs.push_back({&models.back()->qubo, tabu_options(n, 1 + n % 3, 60)});
    }
  }
  models.push_back(std::make_unique<Model>(256, 2));
  jobs.push_back({&models.back()->qubo, tabu_options(256, 2, 40)});
  check_batch(jobs);
}

TEST(emulated_tabu_keeps_the_rules_of_the_cpu) {
  const Model model(40, 20), extreme(12, 170'000'000);
  const std::vector<std::uint8_t> states = some_states(3 * 40);
  std::vector<TabuJob> jobs;
  for (const Tenure& tenure : {Tenure{0, 1}, Tenure{0, 3}, Tenure{60, 5}, Tenure{3, 4}}) {
    TabuOptions options = tabu_options(40, 3, 80);
    options.tenure = tenure;
    jobs.push_back({&model.qubo, options});
    options.initial_states = states.data();
    jobs.push_back({&model.qubo, options});
    options.max_moves = tenure.low;
    jobs.push_back({&model.qubo, options});
  }
  jobs.push_back({&extreme.qubo, tabu_options(12, 4, 50)});
  check_batch(jobs);
  // A target that some generation reaches: what comes after it is not kept.
  TabuOptions options = tabu_options(40, 130, 5);
  Control control(kNoLimit);
  const Reads all = isinglass::tabu(model.qubo, options, control);
  options.target_energy = *std::min_element(all.energies.begin() + 64, all.energies.begin() + 128);
  check_batch({{&model.qubo, options}});
}

TEST(emulated_tabu_goes_on_from_launch_to_launch) {
  const Model model(20, 20);
  TabuOptions options = tabu_options(20, 2, 1'000'000);
  options.max_moves = 20'000;
  const std::size_t before = driver::emulated_devices().launches;
  check_batch({{&model.qubo, options}});
  CHECK(driver::emulated_devices().launches - before >= 2);
}

TEST(emulated_tabu_in_any_order_and_without_its_barriers) {
  const Model model(40, 20), small(8, 20);
  TabuOptions options = tabu_options(40, 9, 30), longer = tabu_options(8, 1, 1000);
  longer.max_moves = 100;
  const std::vector<TabuJob> jobs{{&model.qubo, options}, {&small.qubo, longer}};
  const auto run = [&] {
    Control control(kNoLimit);
    const std::vector<Reads> found = tabu(jobs, {.slice = 16}, control);
    return std::pair(found[0].states, found[1].states);
  };
  Control other(kNoLimit);
  const std::pair expected(isinglass::tabu(model.qubo, options, other).states,
                           isinglass::tabu(small.qubo, longer, other).states);
  check_in_any_order(run, expected);
  CHECK(check_every_barrier(run, expected) >= 2);
}

TEST(emulated_tabu_stops_with_what_it_has) {
  const Model model(30, 20);
  TabuOptions options = tabu_options(30, 3, 1'000'000'000);
  options.max_moves = 1'000'000'000;
  Control control(0);
  const std::vector<TabuJob> jobs{{&model.qubo, options}};
  const Reads reads = tabu(jobs, Placement{}, control)[0];
  CHECK(reads.count == 3 && reads.stopped == StopReason::time_limit && reads.generations == 0);
  for (std::size_t r = 0; r < 3; ++r) {
    double energy = 0;
    energies(model.qubo.view(), reads.states.data() + r * 30, 1, &energy);
    CHECK(energy == reads.energies[r]);
  }
}

// --- memetic ---------------------------------------------------------------------------------------------------------

namespace {

MemeticOptions memetic_options(std::size_t n, std::size_t pool_size) {
  MemeticOptions options;
  options.pool_size = pool_size;
  options.patience = 20;
  options.generations = 4;
  options.restarts = 2;
  options.tenure = default_tenure(n);
  options.seed = 3 + n;
  options.keep = pool_size;
  return options;
}

void check_batch(const std::vector<MemeticJob>& jobs) {
  Control control(kNoLimit);
  const std::vector<MemeticResult> found = memetic(jobs, Placement{}, control);
  CHECK(found.size() == jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    Control other(kNoLimit);
    const MemeticResult expected = isinglass::memetic(*jobs[j].qubo, jobs[j].options, other);
    check_equal(found[j].reads, expected.reads);
    CHECK(found[j].children == expected.children);
  }
}

}  // namespace

TEST(emulated_memetic_of_every_shape_equals_the_cpu) {
  std::vector<std::unique_ptr<Model>> models;
  std::vector<MemeticJob> jobs;
  for (std::int64_t largest : {9, 300, 70000}) {
    for (std::size_t n : {1U, 2U, 40U, 70U}) {
      models.push_back(std::make_unique<Model>(n, largest));
      jobs.push_back({&models.back()->qubo, memetic_options(n, 3 + n % 3)});
    }
  }
  check_batch(jobs);
}

TEST(emulated_memetic_crosses_groups_as_the_cpu_does) {
  // Equal couplings, few and many, so that ties and whole components decide; and more than grouping may look at.
  const Model dense(48, 1), sparse(64, 1, 7), large(150, 1), wide(50, 1000);
  const std::vector<std::uint8_t> states = some_states(6 * 150);
  std::vector<MemeticJob> jobs;
  for (const Model* model : {&dense, &sparse, &large, &wide}) {
    const std::size_t n = model->qubo.size();
    MemeticOptions options = memetic_options(n, 9);
    options.initial_states = states.data();  // far from each other
    options.num_initial_states = 6;
    options.patience = 1;  // the search hides little of a crossing
    options.generations = n > 100 ? 8 : 40;
    options.restarts = 1;
    jobs.push_back({&model->qubo, options});
  }
  check_batch(jobs);
}

TEST(emulated_memetic_ends_as_the_cpu_does) {
  const Model model(24, 20);
  std::vector<MemeticJob> jobs;
  MemeticOptions options = memetic_options(24, 4);
  options.generations = options.restarts = 0;  // until it has nothing more to give, and two pools agree
  jobs.push_back({&model.qubo, options});
  const std::vector<std::uint8_t> states = some_states(5 * 24);
  options.initial_states = states.data();
  options.num_initial_states = 5;
  options.widen = true;
  options.keep = 30;
  jobs.push_back({&model.qubo, options});
  Control control(kNoLimit);
  options.target_energy = isinglass::memetic(model.qubo, options, control).reads.energies[0];
  jobs.push_back({&model.qubo, options});
  check_batch(jobs);
}

TEST(emulated_memetic_in_any_order_and_without_its_barriers) {
  const Model model(64, 1, 7), small(8, 20);
  const std::vector<std::uint8_t> states = some_states(5 * 64);
  MemeticOptions options = memetic_options(64, 7), longer = memetic_options(8, 3);
  options.initial_states = states.data();
  options.num_initial_states = 5;
  options.restarts = longer.generations = 1;  // two pools of the other: one ends before the other
  options.patience = 1;
  options.generations = 12;
  longer.patience = 100;
  const std::vector<MemeticJob> jobs{{&model.qubo, options}, {&small.qubo, longer}};
  const auto run = [&] {
    Control control(kNoLimit);
    const std::vector<MemeticResult> found = memetic(jobs, {.slice = 16}, control);
    return std::pair(found[0].reads.flips, found[1].reads.flips);  // they show every step of a search
  };
  Control other(kNoLimit);
  const std::pair expected(isinglass::memetic(model.qubo, options, other).reads.flips,
                           isinglass::memetic(small.qubo, longer, other).reads.flips);
  check_in_any_order(run, expected);
  CHECK(check_every_barrier(run, expected) >= 8);
}

TEST(emulated_memetic_stops_with_what_it_has) {
  const Model model(30, 20);
  Control control(0);
  MemeticOptions options = memetic_options(30, 4);
  options.generations = 1'000'000;
  const std::vector<MemeticJob> jobs{{&model.qubo, options}};
  const Reads reads = memetic(jobs, Placement{}, control)[0].reads;
  CHECK(reads.count >= 1 && reads.stopped == StopReason::time_limit && reads.generations == 0);
}

}  // namespace isinglass::cuda
