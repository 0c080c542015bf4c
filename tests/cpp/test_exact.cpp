#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "check.hpp"
#include "isinglass/exact.hpp"
#include "isinglass/posiform.hpp"

using namespace isinglass;

namespace {

struct Model {
  std::size_t n;
  std::vector<double> dense, linear;

  QuboView view() const {
    QuboView view;
    view.n = n;
    view.linear = linear;
    view.dense = dense.data();
    return view;
  }
  double energy(std::size_t state) const {
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i; j < n; ++j) {
        if (state >> i & 1 && state >> j & 1) total += dense[i * n + j];
      }
    }
    return total;
  }
};

Model random_model(std::size_t n, int largest, double density, std::mt19937& random) {
  Model model{n, std::vector<double>(n * n), std::vector<double>(n)};
  std::uniform_int_distribution<int> value(-largest, largest);
  std::uniform_real_distribution<double> share(0, 1);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) {
      if (share(random) < density) model.dense[i * n + j] = value(random);
    }
    model.linear[i] = model.dense[i * n + i];
  }
  return model;
}

/// The energy that a form gives a state: its constant when every variable is fixed.
std::int64_t value(Posiform& form, std::size_t n, std::size_t state) {
  const auto here = form.checkpoint();
  for (Literal i = 0; i < n; ++i) {
    if (form.alive(2 * i)) form.fix(state >> i & 1 ? 2 * i : 2 * i + 1);
  }
  const std::int64_t energy = form.constant();
  form.restore(here);
  return energy;
}

}  // namespace

TEST(raising_a_posiform_changes_no_energy_and_can_be_taken_back) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const std::size_t n = 1 + static_cast<std::size_t>(round % 7);
    const Model model = random_model(n, round % 3 == 0 ? 1 : 20, 0.8, random);
    constexpr int kUnits = 4;
    Posiform form(n);
    for (std::size_t i = 0; i < n; ++i) {
      form.add_linear(i, kUnits * static_cast<std::int64_t>(model.linear[i]));
      for (std::size_t j = i + 1; j < n; ++j) {
        form.add_coupling(i, j, kUnits * static_cast<std::int32_t>(model.dense[i * n + j]));
      }
    }
    Control control(std::numeric_limits<double>::infinity());
    const auto begin = form.checkpoint();
    std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
    const auto check = [&](std::size_t fixed) {
      for (std::size_t state = 0; state < std::size_t{1} << n; ++state) {
        if (fixed != 0 && (state & 1) != 1) continue;  // variable 0 is true
        const auto energy = kUnits * static_cast<std::int64_t>(model.energy(state));
        CHECK(value(form, n, state) == energy);
        CHECK(form.constant() <= energy);
        if (fixed == 0) lowest = std::min(lowest, energy);
      }
    };
    check(0);
    form.raise(std::numeric_limits<std::int64_t>::max(), control);
    check(0);
    const std::int64_t bound = form.constant();
    const auto middle = form.checkpoint();
    form.fix(0);
    form.raise(std::numeric_limits<std::int64_t>::max(), control);
    check(1);
    form.restore(middle);
    CHECK(form.constant() == bound);
    check(0);
    form.restore(begin);
    check(0);
    CHECK(bound <= lowest);
  }
}

TEST(what_is_charged_after_a_full_raise_is_false_in_all_optima) {
  std::mt19937 random(2);
  int charged = 0;
  for (int round = 0; round < 200; ++round) {
    const std::size_t n = 6;
    const Model model = random_model(n, 9, 0.5, random);
    Posiform form(n);
    for (std::size_t i = 0; i < n; ++i) {
      form.add_linear(i, 64 * static_cast<std::int64_t>(model.linear[i]));
      for (std::size_t j = i + 1; j < n; ++j) {
        form.add_coupling(i, j, 64 * static_cast<std::int32_t>(model.dense[i * n + j]));
      }
    }
    Control control(std::numeric_limits<double>::infinity());
    if (!form.raise(std::numeric_limits<std::int64_t>::max(), control)) continue;
    double lowest = std::numeric_limits<double>::infinity();
    for (std::size_t state = 0; state < 64; ++state) lowest = std::min(lowest, model.energy(state));
    for (std::size_t state = 0; state < 64; ++state) {
      if (model.energy(state) != lowest) continue;
      for (Literal u : form.charged()) {
        ++charged;
        CHECK((state >> (u >> 1) & 1) == (u & 1));  // u is false
      }
    }
  }
  CHECK(charged > 100);
}

TEST(exact_equals_enumeration) {
  std::mt19937 random(3);
  for (int round = 0; round < 120; ++round) {
    const std::size_t n = static_cast<std::size_t>(round % 12);
    const Model model = random_model(n, round % 4 == 0 ? 1 : 30, round % 5 == 0 ? 0.2 : 0.9, random);
    std::vector<double> all;
    for (std::size_t state = 0; state < std::size_t{1} << n; ++state) all.push_back(model.energy(state));
    std::sort(all.begin(), all.end());
    const Qubo qubo(model.view(), std::nullopt);
    for (std::size_t k : {1u, 2u, 9u}) {
      ExactOptions options;
      options.num_solutions = k;
      Control control(std::numeric_limits<double>::infinity());
      const Proof proof = exact(qubo, options, control);
      CHECK(proof.proved);
      CHECK(proof.count == std::min(k, all.size()));
      for (std::size_t r = 0; r < proof.count; ++r) CHECK(proof.energies[r] == all[r]);
      CHECK(proof.lower_bound == all.front());
      options.node_limit = 1;
      Control again(std::numeric_limits<double>::infinity());
      CHECK(exact(qubo, options, again).lower_bound <= all.front());
    }
  }
}
