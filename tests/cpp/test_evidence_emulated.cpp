// Kernel logic tests of swap search on host emulation: the device's answers are those of swap_search(), bit for bit.
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "check.hpp"
#include "emulated.hpp"
#include "evidence.hpp"
#include "evidence_instance.hpp"
#include "isinglass/control.hpp"

namespace isinglass::cuda {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

struct Batch {
  std::vector<std::unique_ptr<EvidenceInstance>> instances;
  std::vector<std::unique_ptr<EvidenceProblem>> owned;
  std::vector<const EvidenceProblem*> problems;
  std::vector<std::uint64_t> seeds;

  void add(std::size_t n, std::size_t terms, std::size_t max_items, bool budget) {
    const std::uint64_t seed = seeds.size();
    instances.push_back(std::make_unique<EvidenceInstance>(n, terms, max_items, seed, budget));
    owned.push_back(std::make_unique<EvidenceProblem>(instances.back()->view));
    problems.push_back(owned.back().get());
    seeds.push_back(seed * 7 + 3);
  }
};

/// Sizes that do not divide by 32, and limits that bind.
Batch batch() {
  Batch made;
  for (const bool budget : {false, true}) {
    for (std::size_t n : {1, 2, 7, 31, 32, 33, 45, 70}) made.add(n, n % 9, std::min<std::size_t>(n, 4), budget);
    made.add(40, 0, 12, budget);
    made.add(12, 40, 12, budget);
    made.add(5, 3, 0, budget);
  }
  return made;
}

std::size_t differing(const Batch& made, const SwapBatchOptions& options) {
  Control control(kForever);
  const std::vector<EvidenceAnswer> found = swap_search(made.problems, made.seeds, options, control);
  std::size_t count = 0;
  for (std::size_t i = 0; i < made.problems.size(); ++i) {
    const EvidenceAnswer want =
        isinglass::swap_search(*made.problems[i], {options.num_reads, options.patience, made.seeds[i]}, control);
    const bool same = found[i].selection == want.selection && found[i].value == want.value &&
                      found[i].reads == want.reads && found[i].moves == want.moves &&
                      found[i].patience == want.patience && found[i].stopped == want.stopped;
    if (!same) {
      std::cerr << "problem " << i << " differs: moves " << found[i].moves << ' ' << want.moves << ", value "
                << found[i].value << ' ' << want.value << '\n';
      ++count;
    }
  }
  return count;
}

}  // namespace

TEST(emulated_swaps_equal_swap_search) {
  const Batch made = batch();
  CHECK(differing(made, {}) == 0);
  CHECK(differing(made, {.num_reads = 3, .patience = 25}) == 0);
}

TEST(emulated_swaps_in_any_order_and_slices) {
  const Batch made = batch();
  std::uint32_t moves = 3;  // of a launch
  const auto run = [&] { return differing(made, {.num_reads = 2, .most_moves = ++moves}); };
  check_in_any_order(run, std::size_t{0});
}

TEST(emulated_swaps_stop_with_the_best_so_far) {
  Batch made;
  made.add(40, 6, 5, false);
  Control control(0);
  const std::vector<EvidenceAnswer> found = swap_search(made.problems, made.seeds, {}, control);
  CHECK(found[0].stopped == StopReason::time_limit && found[0].selection.empty() && found[0].value == 0);
  CHECK(found[0].patience == 10);
}

TEST(emulated_swaps_need_their_barrier) {
  const Batch made = batch();
  const auto run = [&] { return differing(made, {.num_reads = 2, .most_moves = 9}); };
  CHECK(check_every_barrier(run, std::size_t{0}) == 1);
}

}  // namespace isinglass::cuda
