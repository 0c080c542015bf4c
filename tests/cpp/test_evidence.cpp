// The native core of evidence problems: moves against recomputed values, bounds against enumeration.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.hpp"
#include "evidence_instance.hpp"
#include "isinglass/evidence.hpp"
#include "isinglass/isa.hpp"

using namespace isinglass;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

double optimum(const EvidenceProblem& problem) {
  double best = 0;
  for (std::uint32_t set = 0; set < (1U << problem.size()); ++set) {
    std::vector<std::int32_t> items;
    for (std::uint32_t left = set; left != 0; left &= left - 1) items.push_back(std::countr_zero(left));
    if (problem.feasible(items)) best = std::max(best, problem.evaluate(items));
  }
  return best;
}

}  // namespace

TEST(evidence_exact_is_the_enumerated_optimum) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const EvidenceInstance instance(1 + seed % 11, seed % 6, 1 + seed % 4 % (1 + seed % 11), seed, seed % 3 == 0);
    const EvidenceProblem problem(instance.view);
    CHECK(problem.max_error() == 0);
    Control control(kForever);
    const double best = optimum(problem);
    const EvidenceAnswer answer = exact_search(problem, {{2, 20, seed}, 0, 0}, control);
    CHECK(answer.proved);
    CHECK(answer.value == best);
    CHECK(answer.upper_bound == best);
    CHECK(problem.feasible(answer.selection));
    CHECK(std::is_sorted(answer.selection.begin(), answer.selection.end()));
    for (std::size_t steps : {0, 1, 5, 50}) CHECK(dual_bound(problem, best, steps, control) >= best);
    // Stopped anywhere, the bound still holds.
    for (std::uint64_t limit = 1; limit < 6; ++limit) {
      const EvidenceAnswer part = exact_search(problem, {{1, 1, seed}, limit, 0}, control);
      CHECK(part.upper_bound >= best);
      CHECK(part.value <= best);
    }
  }
}

TEST(evidence_swap_values_are_those_of_its_selections) {
  const Level before = level();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const EvidenceInstance instance(30, 7, 5, seed, seed % 2 == 0);
    const EvidenceProblem problem(instance.view);
    std::vector<std::int32_t> first;
    for (Level l : available_levels()) {
      force_level(name(l));
      Control control(kForever);
      const EvidenceAnswer answer = swap_search(problem, {4, 40, seed}, control);
      CHECK(problem.feasible(answer.selection));
      CHECK(answer.value == static_cast<double>(problem.integer_value(answer.selection)) * problem.granule());
      CHECK(answer.reads == 4);
      if (first.empty()) first = answer.selection;
      CHECK(answer.selection == first);
    }
    force_level(name(before));
  }
}

TEST(evidence_stops_when_told) {
  const EvidenceInstance instance(60, 20, 12, 1, false);
  const EvidenceProblem problem(instance.view);
  Control control(0.02);
  const EvidenceAnswer answer = exact_search(problem, {{0, 0, 1}, 0, 0}, control);
  CHECK(answer.proved || answer.stopped == StopReason::time_limit);
  CHECK(control.seconds() < 0.5);
  CHECK(answer.upper_bound >= answer.value);
}
