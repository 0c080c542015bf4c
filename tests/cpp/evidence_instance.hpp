// Evidence problems to test with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "isinglass/evidence.hpp"
#include "isinglass/random.hpp"

namespace isinglass {

/// Small random integers: ties are common.
struct EvidenceInstance {
  std::vector<double> linear, pairs, term_weights;
  std::vector<std::uint8_t> covers;
  std::vector<std::int64_t> costs;
  EvidenceView view;

  EvidenceInstance(std::size_t n, std::size_t terms, std::size_t max_items, std::uint64_t seed, bool budget)
      : linear(n), pairs(n * n), term_weights(terms), covers(terms * n), costs(n) {
    std::uint32_t at = 0;
    const auto draw = [&](std::uint32_t below) { return static_cast<int>(random_bits(seed, 0, 0, at++) % below); };
    for (double& g : linear) g = draw(20) - 5;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) pairs[i * n + k] = pairs[k * n + i] = draw(11) - 5;
    }
    for (double& w : term_weights) w = draw(12);
    for (auto& c : covers) c = draw(3) == 0 ? 1 : 0;
    for (auto& c : costs) c = 1 + draw(9);
    view.n = n;
    view.terms = terms;
    view.linear = linear;
    view.pairs = pairs.data();
    view.covers = covers.data();
    view.term_weights = term_weights;
    view.max_items = max_items;
    if (budget) {
      view.costs = costs;
      view.budget = static_cast<std::int64_t>(2 * max_items + 3);
    }
  }
};

}  // namespace isinglass
