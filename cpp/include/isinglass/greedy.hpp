// Lazy density greedy and Greedy+Max.
#pragma once

#include <span>
#include <vector>

#include "isinglass/bounds.hpp"
#include "isinglass/control.hpp"
#include "isinglass/isa.hpp"
#include "isinglass/packing.hpp"

namespace isinglass {

struct GreedyOptions {
  /// Greedy+Max instead of density greedy with the best single item.
  bool plus_max = true;
  /// Also one run for each first item, and exchanges on the best of all.
  bool high_effort = false;
  int threads = 1;  // of the runs of high effort; no answer depends on it
};

struct Packing {
  std::vector<Item> selection;  // in order of choice, pinned items first
  std::vector<double> gains;    // marginal gain of each when it was picked
  double value = 0;             // F(selection), by `evaluate`
  double cost = 0;              // exactly rounded, in the caller's unit
  bool feasible = true;         // recounted from the caller's costs
  Bound bound;
  Level level = Level::scalar;  // instruction set of the kernels
  bool proved = false;          // optimal up to rounding, by branch and bound
  StopReason stopped = StopReason::none;
  std::size_t gain_evaluations = 0;
  std::size_t nodes = 0;  // of a branch and bound
  double search_seconds = 0;
  double certificate_seconds = 0;
};

/// Fills in what follows from `selection` and the caller's arrays: value, cost, feasibility.
void recount(const PackingProblem& problem, Packing& packing);

/// Density greedy (gain per cost, ties to the lowest index, positive gains only, whatever still fits), evaluated lazily
/// (Minoux 1978, "Accelerated greedy algorithms for maximizing submodular set functions"), then
/// - lazy_greedy: the best single item where it alone beats the greedy set (Lin, Bilmes 2011, "A class of submodular
///   functions for document summarization");
/// - plus_max: the best set of a greedy prefix and the single item of largest gain that fits beside it (Yaroslavtsev,
///   Zhou, Avdiukhin 2020, "Bring your own greedy + max: near-optimal 1/2-approximations for submodular knapsack"),
///   filled up greedily where budget is left.
/// Picks are those of the plain algorithm, whatever the laziness saved. With high effort the same from each first item
/// that fits (Feldman, Nutov, Shoham 2023, "Practical budgeted submodular maximization": 0.6174 of the optimum), then
/// `polish`; never below the plain answer.
Packing greedy(const PackingProblem& problem, const GreedyOptions& options, CertificateLevel certificate,
               Control& control);

/// What a run of the same algorithm that was made elsewhere, on a device, leaves.
struct GreedyTrace {
  /// F of the greedy set at some size, and the newest known gain of each item then: 0 of what is in the set or may not
  /// be picked, padded with zeros to a multiple of 16.
  struct State {
    double value;
    std::span<const double> gain;
  };
  std::vector<State> states;  // with none picked, at every doubling from 4 picks on, and at the end
  std::size_t picks = 0;      // of the greedy set
  std::size_t gain_evaluations = 0;
  std::vector<Item> selection;  // the answer, in order of choice, pinned items first
  std::vector<double> gains;
};

/// The answer of such a run, with the certificate that `greedy` would give it.
Packing answer_of(const PackingProblem& problem, GreedyTrace trace, CertificateLevel certificate, Control& control);

}  // namespace isinglass
