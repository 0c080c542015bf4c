// Temperatures, made of single IEEE operations: the same doubles on every machine.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "isinglass/ladder.hpp"
#include "isinglass/qubo.hpp"

namespace isinglass {

struct MoveCounts;

/// ln x for finite x > 0 and e^x, by additions, multiplications and divisions in a fixed order: the functions of a C
/// library differ between systems. Relative error below 1e-14.
double portable_log(double x);
double portable_exp(double x);

/// `count` numbers from `first` to about `last` (both > 0), each the one before times a constant.
std::vector<double> geometric(double first, double last, std::size_t count);
/// That constant; 1 where all are equal.
double geometric_ratio(double first, double last, std::size_t count);

/// `count` inverse temperatures from `first` to `last`: by a constant factor (then both > 0), or by a constant step.
enum class Spacing { geometric, linear };
std::vector<double> spaced(Spacing spacing, double first, double last, std::size_t count);

/// kernel_temperature for inverse temperatures in the units of the caller's energies, 0 and infinity included.
std::vector<float> kernel_temperatures(const std::vector<double>& betas, double scale);

/// Temperatures between which annealing does its work, in integer units.
struct Window {
  double hot = 0;
  double cold = 0;
};

/// From a short anneal of fixed reads that does not depend on any seed: from half the 90 % quantile of
/// sqrt(sum_j w_ij^2) down by a factor of 1000. Hot: where the accepted moves that change the energy fall below
/// `hot_share` of all; cold: where a sweep accepts fewer than 0.3 uphill moves, or 0.7 % of its attempts where that is
/// less. Quantiles and counts of moves, not extremes, so neither the scale of a model nor a few large penalties decide.
Window probe_window(const Qubo& qubo, double hot_share = 0.1);
/// What the probe walks, and the window that its moves tell of, one count a temperature: for a walk elsewhere.
inline constexpr std::size_t kProbeReads = 16;
std::vector<double> probe_temperatures(const Qubo& qubo);
Window window_of(const Qubo& qubo, std::span<const double> temperatures, std::span<const MoveCounts> counts,
                 double hot_share = 0.1);
/// The range of that probe itself.
Window wide_window(const Qubo& qubo);
/// For runs that are shorter than a probe: from the same start down by a factor of 30.
Window plain_window(const Qubo& qubo);

}  // namespace isinglass
