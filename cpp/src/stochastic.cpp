#include "isinglass/stochastic.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "isinglass/random.hpp"

namespace isinglass {
namespace {

std::size_t sample_size(const PackingProblem& problem, const std::vector<Item>& open, double epsilon) {
  const PackingView& view = problem.view();
  double total_cost = 0;
  for (Item item : open) total_cost += view.costs[static_cast<std::size_t>(item)];
  const auto n = static_cast<double>(open.size());
  const double left = view.budget - spending(view, view.pinned).cost;
  const double room = static_cast<double>(view.max_items - view.pinned.size());
  const double picks = std::max(1.0, std::min({n, room, left / (total_cost / n)}));
  return static_cast<std::size_t>(std::clamp(std::ceil(n / picks * std::log(1 / epsilon)), 1.0, n));
}

/// Moves a random sample to the front of `items`.
void sample(std::vector<Item>& items, std::size_t size, SweepKey key) {
  for (std::size_t k = 0; k < size; ++k) {
    const std::uint64_t bits = random_bits(key, static_cast<std::uint32_t>(k));
    std::swap(items[k], items[k + static_cast<std::size_t>(bits * (items.size() - k) >> 32)]);
  }
}

}  // namespace

Packing stochastic_greedy(const PackingProblem& problem, const SampleOptions& options, CertificateLevel certificate,
                          Control& control) {
  const PackingView& view = problem.view();
  PackingState state;
  Purse purse;
  state.reset(problem);
  purse.reset(problem);
  Packing out;
  const auto take = [&](Item item, double gain) {
    state.add(item);
    purse.spend(item);
    out.selection.push_back(item);
    out.gains.push_back(gain);
  };
  for (Item item : view.pinned) take(item, state.gain(item));
  std::vector<Item> open;
  for (std::size_t i = 0; i < problem.size(); ++i) {
    if (problem.eligible()[i]) open.push_back(static_cast<Item>(i));
  }

  const std::size_t size = open.empty() ? 0 : sample_size(problem, open, options.epsilon);
  const ReadKey read = read_key(options.seed ^ stream::stochastic_greedy, 0);
  std::vector<double> gains;
  for (std::uint32_t step = 0; !open.empty() && out.selection.size() < view.max_items && !control.stop(); ++step) {
    const std::size_t drawn = std::min(size, open.size());
    sample(open, drawn, sweep_key(read, step));
    gains.resize(drawn);
    state.gains(std::span(open).first(drawn), gains.data());
    out.gain_evaluations += drawn;
    std::size_t best = drawn;
    double best_density = 0;
    for (std::size_t k = 0; k < drawn; ++k) {
      const double density = gains[k] / view.costs[static_cast<std::size_t>(open[k])];
      if (density <= 0 || !purse.fits(open[k])) continue;
      if (best == drawn || density > best_density || (density == best_density && open[k] < open[best])) {
        best = k;
        best_density = density;
      }
    }
    const Item picked = best < drawn ? open[best] : -1;
    if (best < drawn) take(picked, gains[best]);
    // What no longer fits, or adds nothing, never will.
    for (std::size_t k = drawn; k-- > 0;) {
      if (open[k] != picked && (gains[k] > 0 || !view.is_submodular()) && purse.fits(open[k])) continue;
      open[k] = open.back();
      open.pop_back();
    }
  }

  out.level = level();
  out.search_seconds = control.seconds();
  recount(problem, out);
  out.bound = bound_at(problem, out.selection, certificate, control);
  out.bound.value = std::max(out.bound.value, out.value);
  out.certificate_seconds = control.seconds() - out.search_seconds;
  out.stopped = control.reason();
  return out;
}

}  // namespace isinglass
