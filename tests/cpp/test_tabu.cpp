// Tabu and memetic search at the limits of their integers, in every layout and level.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"
#include "isinglass/isa.hpp"
#include "isinglass/memetic.hpp"
#include "isinglass/random.hpp"
#include "isinglass/tabu.hpp"

using namespace isinglass;

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// A dense model whose worst field is about `worst`.
struct Model {
  std::size_t n;
  std::vector<double> linear, dense;
  Qubo qubo;

  Model(std::size_t size, double worst) : n(size), linear(size), dense(size * size), qubo((fill(worst), view()), 1.0) {}

  void fill(double worst) {
    const double largest = worst / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      linear[i] = draw(i, i, largest);
      for (std::size_t j = i + 1; j < n; ++j) dense[i * n + j] = draw(i, j, largest);
    }
  }
  QuboView view() const {
    QuboView v;
    v.n = n;
    v.linear = linear;
    v.dense = dense.data();
    return v;
  }
  static double draw(std::size_t i, std::size_t j, double largest) {
    const std::uint32_t bits = random_bits(1, i, 0, static_cast<std::uint32_t>(j));
    return static_cast<double>(static_cast<std::int64_t>((static_cast<double>(bits) / 4294967295.0 * 2 - 1) * largest));
  }
};

std::vector<Layout> fitting(const Qubo& qubo) {
  std::vector<Layout> layouts;
  for (Layout layout : all_layouts()) {
    if (unfit_for_tabu(qubo, layout).empty()) layouts.push_back(layout);
  }
  return layouts;
}

template <class Body>
void at_every_level(Body body) {
  const std::string before(name(level()));
  for (Level candidate : available_levels()) {
    force_level(name(candidate));
    body();
  }
  force_level(before);
}

}  // namespace

TEST(tabu_walks_the_same_way_in_every_layout_up_to_the_limits_of_its_fields) {
  for (double worst : {500.0, 32000.0, 70000.0, 2.1e9}) {
    for (std::size_t n : {1U, 2U, 31U, 65U, 130U}) {
      const Model model(n, worst);
      Reads expected;
      at_every_level([&] {
        for (Layout layout : fitting(model.qubo)) {
          TabuOptions options;
          options.num_reads = 3;
          options.patience = 150;
          options.max_moves = 2000;
          options.tenure = default_tenure(n);
          options.seed = 5;
          options.layout = layout;
          Control control(kNoLimit);
          const Reads found = tabu(model.qubo, options, control);
          if (expected.count == 0) expected = found;
          CHECK(found.count == 3 && found.states == expected.states && found.flips == expected.flips);
          CHECK(found.energies == expected.energies);
        }
      });
    }
  }
}

TEST(tabu_keeps_the_energy_of_what_it_returns) {
  const Model model(90, 9000);
  for (Layout layout : fitting(model.qubo)) {
    Tabu search(model.qubo, layout, default_tenure(90), 2);
    std::vector<std::uint8_t> state(90);
    random_state(3, 0, 90, state.data());
    Words words(words_of(90));
    pack(state.data(), 90, words.data());
    double energy;
    energies(model.view(), state.data(), 1, &energy);
    CHECK(static_cast<double>(search.set(0, words.data())) == energy);
    search.copy(1, 0);
    std::int64_t flipped = search.flip(1, {4, 77});
    state[4] ^= 1;
    state[77] ^= 1;
    energies(model.view(), state.data(), 1, &energy);
    CHECK(static_cast<double>(flipped) == energy);
    Control control(kNoLimit);
    const std::int64_t best = search.search(1, {7, 8}, 100, 5000, std::numeric_limits<std::int64_t>::min(), control);
    CHECK(best <= flipped && best == search.energy(1));
    search.words(1, words.data());
    unpack(words.data(), 90, state.data());
    energies(model.view(), state.data(), 1, &energy);
    CHECK(static_cast<double>(best) == energy);
  }
}

TEST(memetic_does_not_depend_on_threads_or_level) {
  const Model model(70, 40000);
  std::vector<std::uint8_t> expected;
  at_every_level([&] {
    for (int threads : {1, 2, 5}) {
      MemeticOptions options;
      options.tenure = default_tenure(70);
      options.seed = 11;
      options.threads = threads;
      options.keep = 8;
      Control control(kNoLimit);
      const MemeticResult found = memetic(model.qubo, options, control);
      if (expected.empty()) expected = found.reads.states;
      CHECK(found.reads.states == expected);
      CHECK(std::is_sorted(found.reads.energies.begin(), found.reads.energies.end()));
    }
  });
}

TEST(a_stopped_search_still_has_an_answer) {
  const Model model(50, 5000);
  Control control(0.0);
  CHECK(memetic(model.qubo, {}, control).reads.count >= 1);
  TabuOptions options;
  options.num_reads = 5;
  options.patience = 10;
  options.max_moves = 100;
  Control again(0.0);
  CHECK(tabu(model.qubo, options, again).count >= 1);
}
