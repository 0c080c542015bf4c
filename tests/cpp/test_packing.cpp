#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "check.hpp"
#include "isinglass/cosine_kernels.hpp"
#include "isinglass/greedy.hpp"
#include "isinglass/packing_kernels.hpp"
#include "isinglass/random.hpp"
#include "isinglass/tournament.hpp"

using namespace isinglass;

namespace {

double uniform(std::uint64_t seed, std::uint32_t i) { return (random_bits(seed, 0, 0, i) >> 8) / 16777216.0; }

/// A random instance with every term, and the arrays it views.
struct Instance {
  explicit Instance(std::size_t n, std::uint64_t seed)
      : costs(n), integer_costs(n), relevance(n), similarity(n * n), groups(n) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto k = static_cast<std::uint32_t>(i);
      integer_costs[i] = 5 + static_cast<std::int64_t>(uniform(seed, k) * 40);
      costs[i] = static_cast<double>(integer_costs[i]);
      relevance[i] = uniform(seed + 1, k);
      groups[i] = static_cast<std::int32_t>(uniform(seed + 2, k) * 4);
      row_start.push_back(static_cast<std::int64_t>(terms.size()));
      for (std::int32_t t = 0; t < 6; ++t) {
        if (uniform(seed + 3, k * 6 + static_cast<std::uint32_t>(t)) < 0.3) terms.push_back(t);
      }
      for (std::size_t j = 0; j <= i; ++j) {
        const auto s = static_cast<float>(i == j ? 1 : uniform(seed + 4, static_cast<std::uint32_t>(i * n + j)));
        similarity[i * n + j] = similarity[j * n + i] = s;
      }
    }
    row_start.push_back(static_cast<std::int64_t>(terms.size()));
  }

  PackingView view(double budget) const {
    PackingView v;
    v.n = costs.size();
    v.costs = costs;
    v.budget = budget;
    v.integer_costs = integer_costs;
    v.integer_budget = static_cast<std::int64_t>(budget);
    v.relevance = relevance;
    v.similarity = similarity.data();
    v.coverage = {row_start, terms, {}};
    v.term_weights = term_weights;
    v.groups = groups;
    v.num_groups = 4;
    v.relevance_weight = 1.0;
    v.coverage_weight = 0.5;
    v.representation_weight = 0.4;
    v.diversity_weight = 0.3;
    v.facility_location_weight = 0.2;
    v.max_items = costs.size();
    return v;
  }

  std::vector<double> costs;
  std::vector<std::int64_t> integer_costs;
  std::vector<double> relevance;
  std::vector<float> similarity;
  std::vector<std::int32_t> groups;
  std::vector<std::int64_t> row_start;
  std::vector<std::int32_t> terms;
  std::vector<double> term_weights = std::vector<double>(6, 1.0);
};

Packing run(const PackingProblem& problem, bool plus_max, CertificateLevel level = CertificateLevel::fast) {
  Control control(std::numeric_limits<double>::infinity());
  return greedy(problem, {.plus_max = plus_max}, level, control);
}

}  // namespace

TEST(cosines_are_rounded_once_a_step_on_every_level) {
  const Level before = level();
  constexpr std::size_t d = 3, rows = 21, panels = 9;
  // 2^-25 (1 + 2^-12) times 1 - 2^-12 + 2^-24 is 2^-25 (1 + 2^-36). Beside 1/2 that lies just above halfway to the next
  // float, by less than a double tells: two roundings would come down.
  const float first[] = {0.5f, 0x1p-25f * (1 + 0x1p-12f), 0.0f}, second[] = {1.0f, 1 - 0x1p-12f + 0x1p-24f, 0.25f};
  std::vector<float> units(rows * d), a(16 * d), b(panels * 16 * d);
  for (std::size_t k = 0; k < d; ++k) {
    for (std::size_t r = 0; r < rows; ++r) units[r * d + k] = first[k] * (r == 2 ? -1.0f : 1.0f);
    for (std::size_t r = 0; r < 16; ++r) a[k * 16 + r] = first[k];
    for (std::size_t c = 0; c < panels * 16; ++c) b[(c / 16 * d + k) * 16 + c % 16] = second[k];
  }
  for (Level candidate : available_levels()) {
    force_level(name(candidate));
    const CosineKernels& kernels = cosine_kernels();
    std::vector<float> tiles(panels * 256), block(rows * 16), row(panels * 16);
    kernels.of_panels(a.data(), b.data(), panels, d, tiles.data());
    kernels.of_rows(units.data(), rows, b.data(), d, block.data());
    kernels.of_row(units.data(), b.data(), panels, d, row.data());
    const float expected = 0.5f + 0x1p-24f;
    for (float value : tiles) CHECK(value == expected);
    for (float value : row) CHECK(value == expected);
    for (std::size_t k = 0; k < block.size(); ++k) CHECK(block[k] == (k / 16 == 2 ? 0.0f : expected));
  }
  force_level(name(before));
}

TEST(kernels_agree_on_every_level) {
  const Level before = level();
  for (std::size_t n : {1, 2, 15, 16, 17, 33, 200}) {
    const std::size_t full = (n + 15) / 16 * 16;
    std::vector<float> row(n), nearest(full, 0.0f);
    std::vector<double> headroom(full, 0.0), peak(full, 0.0);
    std::vector<std::int32_t> blocks;  // all but the second
    for (std::size_t b = 0; b < full / 16; ++b) {
      if (b != 1) blocks.push_back(static_cast<std::int32_t>(b));
    }
    for (std::size_t i = 0; i < n; ++i) {
      row[i] = static_cast<float>(uniform(1, static_cast<std::uint32_t>(i)));
      headroom[i] = uniform(2, static_cast<std::uint32_t>(i));
      nearest[i] = static_cast<float>(uniform(3, static_cast<std::uint32_t>(i)));
      peak[i] = i % 32 < 16 ? 0.0 : uniform(5, static_cast<std::uint32_t>(i));
    }
    std::vector<float> three(3 * n);
    for (std::size_t i = 0; i < three.size(); ++i)
      three[i] = static_cast<float>(uniform(4, static_cast<std::uint32_t>(i)));
    std::vector<double> expected;
    for (Level candidate : available_levels()) {
      force_level(name(candidate));
      const PackingKernels& k = packing_kernels();
      std::vector<double> after = headroom, mass = headroom;
      std::vector<std::uint8_t> tight(full / 16, 0);
      k.saturated_add(row.data(), peak.data(), after.data(), tight.data(), n);
      k.accumulate(row.data(), 0.3, mass.data(), n);
      std::vector<double> got(6);
      const float* const rows[] = {three.data(), three.data() + n, three.data() + 2 * n,
                                   three.data(), three.data() + n, three.data() + 2 * n};  // four, then one by one
      k.excess(rows, 6, blocks.data(), blocks.size(), headroom.data(), n, got.data());
      CHECK(got[0] == got[3] && got[1] == got[4] && got[2] == got[5]);
      float row_peak = 0;
      const double total = k.row_sum(row.data(), n, &row_peak);
      CHECK(row_peak == *std::max_element(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(n)));
      std::vector<double> weighed = headroom, one_by_one = headroom;
      const double weights[] = {0.3, 0, 0.7};
      k.accumulate_rows(three.data(), n, weights, 3, weighed.data(), n);
      k.accumulate(three.data(), weights[0], one_by_one.data(), n);
      k.accumulate(three.data() + 2 * n, weights[2], one_by_one.data(), n);
      CHECK(weighed == one_by_one);
      std::vector<double> once = headroom, twice = peak, other = headroom;
      k.accumulate(nearest.data(), 1.0, once.data(), full);
      k.accumulate_twice(nearest.data(), twice.data(), other.data(), full);
      CHECK(other == once && twice[0] == peak[0] + static_cast<double>(nearest[0]));
      for (double value : {total, k.facility_gain(row.data(), nearest.data(), n), k.dot(row.data(), nearest.data(), n),
                           k.saturation_slope(headroom.data(), mass.data(), after.data(), mass.data(), 0.4, full)}) {
        got.push_back(value);
      }
      got.insert(got.end(), after.begin(), after.end());
      got.insert(got.end(), tight.begin(), tight.end());
      got.insert(got.end(), mass.begin(), mass.end());
      got.push_back(k.capped_sum(headroom.data(), mass.data(), full));
      const Priced priced = k.priced(headroom.data(), mass.data(), 0.7, full);
      const Largest largest = k.largest(headroom.data(), full);
      for (double value : {priced.worth, priced.load, largest.value, static_cast<double>(largest.index)}) {
        got.push_back(value);
      }
      CHECK(headroom[largest.index] == largest.value);
      for (std::size_t i = 0; i < full; ++i) {
        CHECK(headroom[i] < largest.value || (headroom[i] == largest.value && i >= largest.index));
      }
      std::vector<std::int32_t> near(full), by_hand;
      near.resize(k.reaching(headroom.data(), 0.6, near.data(), full));
      for (std::size_t i = 0; i < full; ++i) {
        if (headroom[i] >= 0.6) by_hand.push_back(static_cast<std::int32_t>(i));
      }
      CHECK(near == by_hand);
      std::size_t above = 0;
      for (std::size_t i = 0; (i = k.next_above(headroom.data(), mass.data(), 1, 0.1, 1.6, 0.9, i, full)) < full; ++i) {
        CHECK(1 + headroom[i] + 0.1 > 1.6 && mass[i] <= 0.9);
        ++above;
      }
      for (std::size_t i = 0; i < full; ++i) above -= 1 + headroom[i] + 0.1 > 1.6 && mass[i] <= 0.9;
      CHECK(above == 0);
      std::vector<double> kept = headroom;
      k.drop_above(mass.data(), 0.5, -1, kept.data(), full);
      for (std::size_t i = 0; i < full; ++i) CHECK(kept[i] == (mass[i] > 0.5 ? -1 : headroom[i]));
      if (expected.empty()) expected = got;
      CHECK(got == expected);  // to the bit
    }
  }
  force_level(name(before));
}

TEST(a_tournament_knows_the_largest_and_all_that_reach) {
  for (std::size_t n : {1, 16, 100, 256, 257, 5000, 70000}) {
    Tournament tournament;
    tournament.reset(n);
    CHECK(tournament.top().value == Tournament::kAbsent);
    std::vector<double> values(n, Tournament::kAbsent);
    for (std::size_t i = 0; i < n; i += 3) {
      values[i] = std::floor(50 * uniform(8, static_cast<std::uint32_t>(i)));  // many ties
      tournament.leaves()[i] = values[i];
    }
    tournament.rebuild();
    for (std::uint32_t step = 0; step < 40; ++step) {
      const Largest top = tournament.top();
      const auto best = std::max_element(values.begin(), values.end());
      CHECK(top.value == *best);
      CHECK(*best == Tournament::kAbsent || top.index == static_cast<std::size_t>(best - values.begin()));
      std::vector<std::int32_t> reach(n), by_hand;
      reach.resize(tournament.collect(48, reach.data()));
      for (std::size_t i = 0; i < n; ++i) {
        if (values[i] >= 48) by_hand.push_back(static_cast<std::int32_t>(i));
      }
      CHECK(reach == by_hand);
      const auto i = step % 2 == 0 ? top.index : static_cast<std::size_t>(uniform(9, step) * static_cast<double>(n));
      values[i] = step % 3 == 0 ? Tournament::kAbsent : std::floor(60 * uniform(10, step));
      tournament.set(i, values[i]);
    }
  }
}

TEST(the_priced_knapsack_is_the_fractional_one) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Instance instance(10 + 5 * seed, seed);
    for (double budget : {3.0, 60.0, 1e5}) {
      const PackingProblem problem(instance.view(budget));
      FractionalKnapsack sorted;
      PricedKnapsack priced;
      sorted.reset(problem);
      priced.reset(problem);
      for (std::uint32_t again = 0; again < 3; ++again) {  // the next solve begins at the last price
        std::vector<double> gain(problem.load().size(), 0.0);
        sorted.clear();
        for (Item item : problem.eligible_items()) {
          const auto i = static_cast<std::size_t>(item);
          gain[i] = uniform(seed + again, static_cast<std::uint32_t>(i));
          sorted.push(item, gain[i]);
        }
        const double sum = sorted.solve(), bound = priced.solve(gain.data());
        CHECK(bound >= sum * (1 - 1e-12));
        CHECK(bound <= sum * (1 + 2e-4));
        CHECK(priced.solve(gain.data(), 0.5 * sum) >= sum * (1 - 1e-12));
      }
    }
  }
}

TEST(gains_add_up_to_the_value) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Instance instance(30, seed);
    const PackingProblem problem(instance.view(120));
    for (bool plus_max : {false, true}) {
      const Packing packing = run(problem, plus_max);
      double total = 0;
      for (double gain : packing.gains) total += gain;
      CHECK(std::fabs(total - packing.value) < 1e-12);
      CHECK(packing.feasible);
      CHECK(packing.cost <= 120);
      CHECK(packing.bound.value >= packing.value);
    }
  }
}

TEST(lazy_picks_are_those_of_plain_greedy) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Instance instance(40, seed);
    const PackingView view = instance.view(150);
    const PackingProblem problem(view);
    PackingState state;
    Purse purse;
    state.reset(problem);
    purse.reset(problem);
    std::vector<Item> plain;
    std::vector<bool> in_set(view.n, false);
    for (;;) {
      Item best = -1;
      double best_density = 0;
      for (std::size_t i = 0; i < view.n; ++i) {
        const auto item = static_cast<Item>(i);
        if (in_set[i] || !purse.fits(item)) continue;
        const double density = state.gain(item) / view.costs[i];
        if (density > best_density) {
          best = item;
          best_density = density;
        }
      }
      if (best < 0) break;
      in_set[static_cast<std::size_t>(best)] = true;
      state.add(best);
      purse.spend(best);
      plain.push_back(best);
    }
    CHECK(run(problem, false).selection == plain);
  }
}

TEST(bounds_hold_by_enumeration) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Instance instance(12, seed);
    PackingView view = instance.view(90);
    if (seed % 3 == 1) view.max_items = 3;
    const std::vector<Item> pinned{2};
    if (seed % 3 == 2) view.pinned = pinned;
    const PackingProblem problem(view);
    double optimum = 0;
    for (unsigned mask = 0; mask < (1U << view.n); ++mask) {
      std::vector<Item> set;
      for (std::size_t i = 0; i < view.n; ++i) {
        if (mask >> i & 1U) set.push_back(static_cast<Item>(i));
      }
      if (set.size() > view.max_items || !spending(view, set).within_budget) continue;
      if (!view.pinned.empty() && !(mask >> 2 & 1U)) continue;
      optimum = std::max(optimum, evaluate(problem, set));
    }
    for (auto level : {CertificateLevel::fast, CertificateLevel::tight}) {
      for (bool plus_max : {false, true}) {
        const Packing packing = run(problem, plus_max, level);
        CHECK(packing.bound.value >= optimum);
        CHECK(packing.value <= optimum + 1e-12);
        CHECK(packing.value >= 0.5 * optimum || !plus_max);
      }
    }
  }
}

TEST(costs_without_a_granule_are_summed_exactly) {
  // 0.1 added ten times in doubles is below 1; summed exactly and rounded once it is 1.
  const std::vector<double> costs(10, 0.1), relevance(10, 1.0);
  PackingView view;
  view.n = costs.size();
  view.costs = costs;
  view.budget = 1.0;
  view.relevance = relevance;
  view.relevance_weight = 1;
  view.max_items = 10;
  const PackingProblem problem(view);
  CHECK(run(problem, true).selection.size() == 10);
  view.budget = std::nextafter(1.0, 0.0);
  const PackingProblem tighter(view);
  CHECK(run(tighter, true).selection.size() == 9);
}
