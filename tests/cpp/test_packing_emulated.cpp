// Kernel logic tests of packing on host emulation: the device's answers are those of greedy(), bit for bit.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "check.hpp"
#include "driver_emulated.hpp"
#include "emulated.hpp"
#include "isinglass/control.hpp"
#include "isinglass/greedy.hpp"
#include "isinglass/random.hpp"
#include "packing.hpp"

namespace isinglass::cuda {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

double uniform(std::uint64_t seed, std::size_t i) {
  return (random_bits(seed, 0, 0, static_cast<std::uint32_t>(i)) >> 8) / 16777216.0;
}

/// What an instance is made of.
struct Recipe {
  std::size_t n = 20;
  double budget_share = 0.3;  // of the cost of all
  bool integer_costs = true;
  std::size_t terms = 6;
  bool unit_terms = true;
  double representation = 0.4, facility = 0, diversity = 0.3, coverage = 0.5, relevance = 1;
  std::size_t max_items = 1024;
  std::size_t num_pinned = 0;
  double allowed = 1;         // share
  std::size_t dimension = 0;  // from embeddings of so many dimensions
  bool ties = false;          // few different numbers
};

struct Instance {
  Instance(const Recipe& recipe, std::uint64_t seed) {
    const std::size_t n = recipe.n;
    const auto level = [&](double x) { return recipe.ties ? std::floor(x * 3) / 3 : x; };
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) {
      integer_costs.push_back(5 + static_cast<std::int64_t>(level(uniform(seed, i)) * 40));
      costs.push_back(recipe.integer_costs ? static_cast<double>(integer_costs[i]) : 0.1 + uniform(seed, i));
      total += costs[i];
      relevance.push_back(level(uniform(seed + 1, i)));
      groups.push_back(static_cast<std::int32_t>(uniform(seed + 2, i) * 5));
      allowed.push_back(uniform(seed + 3, i) < recipe.allowed ? 1 : 0);
      row_start.push_back(static_cast<std::int64_t>(terms.size()));
      for (std::size_t t = 0; t < recipe.terms; ++t) {
        if (uniform(seed + 4, i * recipe.terms + t) < 0.3) terms.push_back(static_cast<std::int32_t>(t));
      }
    }
    row_start.push_back(static_cast<std::int64_t>(terms.size()));
    for (std::size_t t = 0; t < recipe.terms; ++t) {
      term_weights.push_back(recipe.unit_terms ? 1 : 0.5 + uniform(seed + 5, t));
    }
    similarity.resize(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        const auto s = static_cast<float>(i == j ? 1 : level(uniform(seed + 6, i * n + j)));
        similarity[i * n + j] = similarity[j * n + i] = s;
      }
    }
    for (std::size_t k = 0; k < recipe.num_pinned; ++k) pinned.push_back(static_cast<Item>(k * 3 % n));
    view.n = n;
    view.costs = costs;
    view.integer_budget = static_cast<std::int64_t>(total * recipe.budget_share);
    view.budget = recipe.integer_costs ? static_cast<double>(view.integer_budget) : total * recipe.budget_share;
    if (recipe.integer_costs) view.integer_costs = integer_costs;
    view.relevance = relevance;
    if (recipe.dimension > 0) {
      std::vector<float> rows;
      for (std::size_t k = 0; k < n * recipe.dimension; ++k) {
        rows.push_back(static_cast<float>(uniform(seed + 7, k) - 0.3));
      }
      embeddings.emplace_back(rows.data(), n, recipe.dimension);
      view.embeddings = &embeddings.front();
    } else {
      view.similarity = similarity.data();
    }
    view.coverage = {row_start, terms, {}};
    view.term_weights = term_weights;
    view.groups = groups;
    view.num_groups = 5;
    view.allowed = allowed;
    view.pinned = pinned;
    view.max_items = recipe.max_items;
    view.relevance_weight = recipe.relevance;
    view.coverage_weight = recipe.coverage;
    view.representation_weight = recipe.representation;
    view.diversity_weight = recipe.diversity;
    view.facility_location_weight = recipe.facility;
    problem.emplace_back(std::make_unique<PackingProblem>(view));
  }

  std::vector<double> costs, relevance, term_weights;
  std::vector<std::int64_t> integer_costs, row_start;
  std::vector<std::int32_t> terms, groups;
  std::vector<std::uint8_t> allowed;
  std::vector<float> similarity;
  std::vector<Item> pinned;
  std::vector<Embeddings> embeddings;
  PackingView view;
  std::vector<std::unique_ptr<PackingProblem>> problem;
};

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (!same_bits(a[k], b[k])) return false;
  }
  return true;
}

bool same(const Packing& a, const Packing& b) {
  return a.selection == b.selection && same_bits(a.gains, b.gains) && same_bits(a.value, b.value) &&
         same_bits(a.cost, b.cost) && same_bits(a.bound.value, b.bound.value) && a.bound.method == b.bound.method &&
         a.feasible == b.feasible && a.gain_evaluations == b.gain_evaluations;
}

std::vector<Recipe> recipes() {
  return {
      {},
      {.n = 1},
      {.n = 33, .budget_share = 0.5},
      {.n = 16, .budget_share = 0.9},
      {.n = 37, .budget_share = 0.25, .terms = 40, .unit_terms = false},
      {.n = 30, .integer_costs = false},
      {.n = 24, .facility = 0.3},
      {.n = 31, .budget_share = 0.6, .max_items = 5},
      {.n = 28, .num_pinned = 3, .allowed = 0.6},
      {.n = 21, .dimension = 9},
      {.n = 26, .ties = true},
      {.n = 18, .budget_share = 0.001},
      {.n = 20, .representation = 0, .diversity = 0},
      {.n = 20, .coverage = 0, .relevance = 0},
      {.n = 40, .budget_share = 0.7, .terms = 70},
      {.n = 80, .representation = 0, .diversity = 0, .coverage = 0, .ties = true},  // many tie
      {.n = 270, .budget_share = 0.03},
      {.n = 64, .budget_share = 0.4, .representation = 4},
      {.n = 23, .facility = 0.3, .dimension = 5},
  };
}

/// Instances of every recipe that differ between the device and greedy().
std::size_t differing(bool plus_max, CertificateLevel certificate, std::uint64_t seeds, std::uint32_t most_work = 0) {
  std::vector<Instance> instances;
  std::vector<const PackingProblem*> problems;
  for (const Recipe& recipe : recipes()) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) instances.emplace_back(recipe, 10 * seed);
  }
  for (const Instance& instance : instances) problems.push_back(instance.problem.front().get());
  Control control(kForever);
  const std::vector<Packing> found =
      pack(problems, {.plus_max = plus_max, .certificate = certificate, .most_work = most_work}, control);
  std::size_t count = 0;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (!same(found[i], greedy(*problems[i], {.plus_max = plus_max}, certificate, control))) {
      const Packing want = greedy(*problems[i], {.plus_max = plus_max}, certificate, control);
      std::cerr << "recipe " << i / seeds << ", seed " << i % seeds << " differs: selection "
                << (found[i].selection == want.selection) << ", gains " << same_bits(found[i].gains, want.gains)
                << ", value " << found[i].value - want.value << ", bound " << found[i].bound.value - want.bound.value
                << ", method " << static_cast<int>(found[i].bound.method) << static_cast<int>(want.bound.method)
                << ", evaluations " << found[i].gain_evaluations << " " << want.gain_evaluations << "\n";
      ++count;
    }
  }
  return count;
}

}  // namespace

TEST(emulated_packing_equals_greedy) {
  CHECK(differing(true, CertificateLevel::fast, 6) == 0);
  CHECK(differing(false, CertificateLevel::fast, 3) == 0);
  CHECK(differing(true, CertificateLevel::tight, 1) == 0);
}

TEST(emulated_packing_goes_on_where_a_launch_ended) {
  const std::size_t& launches = driver::emulated_devices().launches;
  for (std::uint32_t most_work : {1U, 3U, 20U, 150U}) {
    const std::size_t before = launches;
    CHECK(differing(true, CertificateLevel::fast, 2, most_work) == 0);
    CHECK(launches - before > 2);
  }
  CHECK(differing(false, CertificateLevel::fast, 1, 1) == 0);
}

TEST(emulated_packing_stops_between_launches) {
  const Instance instance({.n = 200, .budget_share = 0.6}, 3);
  const PackingProblem* const problem = instance.problem.front().get();
  const auto run = [&](double seconds) {
    const std::size_t before = driver::emulated_devices().launches;
    Control control(seconds);
    const Packing packing = pack({&problem, 1}, {.most_work = 1}, control)[0];
    return std::tuple(driver::emulated_devices().launches - before, control.seconds(), packing);
  };
  const auto [whole, seconds, packing] = run(kForever);
  const auto [launches, _, stopped] = run(seconds / 8);
  CHECK(0 < launches && launches < whole);
  CHECK(stopped.selection.size() < packing.selection.size() && stopped.bound.value >= packing.value);
}

TEST(emulated_packing_in_any_order) {
  check_in_any_order([] { return differing(true, CertificateLevel::fast, 1); }, std::size_t{0});
}

TEST(emulated_packing_needs_its_barrier) {
  CHECK(check_every_barrier([] { return differing(true, CertificateLevel::fast, 1, 20); }, std::size_t{0}) == 1);
}

}  // namespace isinglass::cuda
