#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"
#include "isinglass/anneal.hpp"
#include "isinglass/descent.hpp"
#include "isinglass/random.hpp"
#include "isinglass/schedule.hpp"
#include "isinglass/temper.hpp"

using namespace isinglass;

namespace {

/// A dense model of integers up to `largest`, a share `density` of them not 0.
struct Model {
  Model(std::size_t n, double largest, double density, std::uint64_t seed) : linear(n), dense(n * n) {
    std::uint32_t next = 0;
    const auto uniform = [&] { return (random_bits(seed, 1, 0, next++) >> 8) / 16777216.0; };
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i; j < n; ++j) {
        const double w = std::floor((2 * uniform() - 1) * largest);
        if (i == j || uniform() < density) dense[i * n + j] = w;
      }
      linear[i] = dense[i * n + i];
    }
  }
  QuboView view() const {
    QuboView v;
    v.n = linear.size();
    v.linear = linear;
    v.dense = dense.data();
    return v;
  }
  std::vector<double> linear, dense;
};

AnnealOptions options_of(std::size_t reads, std::vector<float> t2) {
  AnnealOptions options;
  options.num_reads = reads;
  options.t2 = std::move(t2);
  options.seed = 42;
  options.trace = true;
  return options;
}

Reads run(const Qubo& qubo, const AnnealOptions& options) {
  Control control(std::numeric_limits<double>::infinity());
  return anneal(qubo, options, control);
}

bool same(const Reads& a, const Reads& b) {
  return a.states == b.states && a.energies == b.energies && a.flips == b.flips && a.trace == b.trace;
}

void compare_everywhere(const Qubo& qubo, AnnealOptions options) {
  force_level("scalar");
  options.layout = Layout::lanes32;
  const Reads expected = run(qubo, options);
  for (Level level : available_levels()) {
    force_level(name(level));
    for (Layout layout : all_layouts()) {
      if (!unfit(qubo, layout).empty()) continue;
      options.layout = layout;
      for (int threads : {1, 3}) {
        options.threads = threads;
        CHECK(same(run(qubo, options), expected));
      }
    }
  }
  force_level(name(available_levels().back()));
}

}  // namespace

TEST(walks_are_the_same_in_every_layout_and_level) {
  for (std::size_t n : {1, 2, 15, 16, 17, 33, 64, 65, 130}) {
    const Model model(n, 20, n > 60 ? 0.2 : 1.0, n);
    const Qubo qubo(model.view(), std::nullopt);
    std::vector<float> t2;
    for (double t : geometric(40, 1, 12)) t2.push_back(kernel_temperature(t));
    compare_everywhere(qubo, options_of(35, t2));
  }
}

TEST(walks_stay_in_range_at_the_limits_of_their_fields) {
  // Largest fields of 16 and of 32 bits, at temperatures from nothing to beyond every int.
  const std::vector<float> t2{1e30F, 3e8F, 89478485.0F, 1e6F, 30000.0F, 1000.0F, 1.0F, 0.0F};
  for (double largest : {1900.0, 120000000.0}) {
    Model model(17, largest, 1.0, 3);
    for (double& w : model.dense) w = std::fabs(w);
    for (std::size_t i = 0; i < 17; ++i) model.linear[i] = model.dense[i * 17 + i] = -largest;
    const Qubo qubo(model.view(), std::nullopt);
    CHECK(qubo.exact());
    CHECK((largest < 2000) == unfit(qubo, Layout::lanes16).empty());
    compare_everywhere(qubo, options_of(20, t2));
  }
}

TEST(scales_that_overflow_are_refused) {
  const Model model(8, 1000, 1.0, 5);
  bool refused = false;
  try {
    const Qubo qubo(model.view(), 1e9);
  } catch (const std::overflow_error&) {
    refused = true;
  }
  CHECK(refused);
}

TEST(portable_functions_are_those_of_the_library) {
  for (double x : {1e-300, 1e-9, 0.3, 0.999999, 1.0, 1.5, 2.0, 1e9, 1e300}) {
    CHECK(std::fabs(portable_log(x) - std::log(x)) <= 1e-14 * std::fabs(std::log(x)) + 1e-16);
  }
  for (double x : {-300.0, -20.0, -0.5, -1e-9, 0.0, 1e-9, 0.7, 20.0, 300.0}) {
    CHECK(std::fabs(portable_exp(x) - std::exp(x)) <= 3e-14 * std::exp(x));
  }
}

TEST(tempering_and_descent_end_in_local_minima) {
  const Model model(40, 30, 1.0, 9);
  const Qubo qubo(model.view(), std::nullopt);
  Control control(std::numeric_limits<double>::infinity());
  TemperOptions options;
  options.num_reads = 2;
  options.num_sweeps = 200;
  options.window = probe_window(qubo);
  const Tempered tempered = temper(qubo, options, control);
  ReadOptions reads;
  reads.num_reads = 5;
  const Reads descended[] = {descend(qubo, Descent::steepest, reads, control),
                             descend(qubo, Descent::first, reads, control)};
  const double best = *std::min_element(tempered.reads.energies.begin(), tempered.reads.energies.end());
  for (const Reads* found : {&tempered.reads, &descended[0], &descended[1]}) {
    for (std::size_t r = 0; r < found->count; ++r) {
      std::vector<std::uint8_t> x(found->states.begin() + static_cast<std::ptrdiff_t>(r * 40),
                                  found->states.begin() + static_cast<std::ptrdiff_t>((r + 1) * 40));
      CHECK(found->energies[r] >= best);
      for (std::uint8_t& bit : x) {
        double flipped = 0;
        bit ^= 1;
        energies(qubo.view(), x.data(), 1, &flipped);
        bit ^= 1;
        CHECK(flipped >= found->energies[r]);
      }
    }
  }
}
