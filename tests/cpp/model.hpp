// Models that kernel logic tests search, and how reads are compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/random.hpp"
#include "isinglass/reads.hpp"

namespace isinglass::cuda {

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct Model {
  std::vector<double> linear, dense;
  Qubo qubo;

  /// Coefficients of -largest .. largest; every `step`-th pair is coupled.
  Model(std::size_t n, std::int64_t largest, std::size_t step = 1)
      : linear(n), dense(n * n), qubo((fill(n, largest, step), view(n)), 1.0) {}

  void fill(std::size_t n, std::int64_t largest, std::size_t step) {
    const auto draw = [&](std::size_t i, std::size_t j) {
      const std::int64_t bits = random_bits(n, i, 0, static_cast<std::uint32_t>(j));
      return static_cast<double>(bits % (2 * largest + 1) - largest);
    };
    for (std::size_t i = 0; i < n; ++i) {
      linear[i] = draw(i, i);
      for (std::size_t j = i + 1; j < n; ++j) dense[i * n + j] = (i + j) % step == 0 ? draw(i, j) : 0;
    }
  }
  QuboView view(std::size_t n) const {
    QuboView v;
    v.n = n;
    v.linear = linear;
    v.dense = dense.data();
    return v;
  }
};

inline std::vector<std::uint8_t> some_states(std::size_t count) {
  std::vector<std::uint8_t> states(count);
  for (std::size_t k = 0; k < count; ++k) states[k] = random_bits(1, 2, 3, static_cast<std::uint32_t>(k)) & 1;
  return states;
}

inline void check_equal(const Reads& found, const Reads& expected) {
  CHECK(found.count == expected.count && found.states == expected.states && found.energies == expected.energies);
  CHECK(found.flips == expected.flips && found.generations == expected.generations);
  CHECK(found.trace == expected.trace && found.target_reached == expected.target_reached);
}

}  // namespace isinglass::cuda
