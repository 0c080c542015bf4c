#include "isinglass/schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "isinglass/moves.hpp"
#include "isinglass/random.hpp"
#include "isinglass/replicas.hpp"

namespace isinglass {
namespace {

constexpr std::size_t kProbeSweeps = 32;
constexpr double kProbeRange = 1000;
constexpr double kPlainRange = 30;
constexpr double kUphillPerSweep = 0.3;
constexpr double kUphillShare = 0.007;  // of the attempts: what 0.3 per sweep is at 43 variables, for fewer ones

Window down_by(const Qubo& qubo, double factor) {
  const double hot = qubo.typical_cost(0.9) / 2;
  return {hot, hot / factor};
}

}  // namespace

double portable_log(double x) {
  int exponent;
  double m = std::frexp(x, &exponent);  // exact
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), z = s * s;
  double sum = 0;
  for (int k = 27; k >= 1; k -= 2) sum = sum * z + 1.0 / k;
  return 2 * s * sum + exponent * kLn2;
}

double portable_exp(double x) {
  const double k = std::floor(x / kLn2 + 0.5);
  const double r = x - k * kLn2;
  double sum = 1;
  for (int j = 18; j >= 1; --j) sum = sum * r / j + 1;
  return std::ldexp(sum, static_cast<int>(k));
}

double geometric_ratio(double first, double last, std::size_t count) {
  if (count < 2 || first == last) return 1;
  return portable_exp((portable_log(last) - portable_log(first)) / static_cast<double>(count - 1));
}

std::vector<double> geometric(double first, double last, std::size_t count) {
  std::vector<double> values(count, first);
  const double ratio = geometric_ratio(first, last, count);
  for (std::size_t k = 1; k < count; ++k) values[k] = values[k - 1] * ratio;
  return values;
}

std::vector<double> spaced(Spacing spacing, double first, double last, std::size_t count) {
  if (spacing == Spacing::geometric) return geometric(first, last, count);
  std::vector<double> values(count, first);
  if (count < 2 || first == last) return values;
  const double step = (last - first) / static_cast<double>(count - 1);
  for (std::size_t k = 1; k < count; ++k) values[k] = first + static_cast<double>(k) * step;
  return values;
}

std::vector<float> kernel_temperatures(const std::vector<double>& betas, double scale) {
  std::vector<float> t2(betas.size());
  std::transform(betas.begin(), betas.end(), t2.begin(), [&](double beta) { return kernel_temperature(scale / beta); });
  return t2;
}

Window wide_window(const Qubo& qubo) { return down_by(qubo, kProbeRange); }

Window plain_window(const Qubo& qubo) { return down_by(qubo, kPlainRange); }

std::vector<double> probe_temperatures(const Qubo& qubo) {
  const Window wide = wide_window(qubo);
  return geometric(wide.hot, wide.cold, kProbeSweeps);
}

Window window_of(const Qubo& qubo, std::span<const double> temperatures, std::span<const MoveCounts> counts,
                 double hot_share) {
  const double moves = static_cast<double>(qubo.size() * kProbeReads);
  std::size_t hot = 0;
  while (hot + 1 < kProbeSweeps && static_cast<double>(counts[hot].changing) >= hot_share * moves) ++hot;
  std::size_t cold = hot;
  const double uphill = std::min(kUphillPerSweep * kProbeReads, kUphillShare * moves);
  while (cold + 1 < kProbeSweeps && static_cast<double>(counts[cold].uphill) >= uphill) ++cold;
  return {temperatures[hot], temperatures[cold]};
}

Window probe_window(const Qubo& qubo, double hot_share) {
  if (const Window wide = wide_window(qubo); wide.hot == 0) return wide;
  const std::vector<double> temperatures = probe_temperatures(qubo);
  std::array<float, kProbeSweeps> t2;
  std::transform(temperatures.begin(), temperatures.end(), t2.begin(), kernel_temperature);
  std::array<MoveCounts, kProbeSweeps> counts{};
  const auto lanes = static_cast<std::size_t>(move_kernels().lanes32.lanes);
  for (std::size_t first = 0; first < kProbeReads; first += lanes) {
    Replicas replicas(qubo, Layout::lanes32, stream::probe, first, std::min(lanes, kProbeReads - first));
    replicas.begin_random();
    replicas.probe({0, kProbeSweeps, t2.data(), nullptr, false}, counts.data());
  }
  return window_of(qubo, temperatures, counts, hot_share);
}

}  // namespace isinglass
