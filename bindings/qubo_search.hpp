// What the searches of a QUBO share, on the CPU and on a device: arguments in, walked reads out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "isinglass/anneal.hpp"
#include "isinglass/memetic.hpp"
#include "isinglass/reads.hpp"
#include "isinglass/schedule.hpp"
#include "isinglass/tabu.hpp"
#include "qubo_handle.hpp"

namespace isinglass {

/// Inverse temperatures of a run: the caller's, or spaced over the caller's range or over the window.
inline std::vector<double> betas_of(QuboHandle& handle, std::size_t num_sweeps,
                                    const std::optional<std::pair<double, double>>& range, bool linear,
                                    const OptionalArray<double>& explicit_betas) {
  if (explicit_betas) {
    const auto given = vector_view(*explicit_betas, "betas");
    return {given.begin(), given.end()};
  }
  if (num_sweeps == 0) return {};
  std::pair<double, double> ends;
  if (range) {
    ends = *range;
  } else {
    constexpr std::size_t kWorthProbing = 64;  // a probe costs as much as 32 sweeps of 16 reads
    const Window window = num_sweeps < kWorthProbing ? plain_window(*handle.qubo) : handle.annealing_window();
    ends = {handle.qubo->scale() / window.hot, handle.qubo->scale() / window.cold};
  }
  return spaced(linear ? Spacing::linear : Spacing::geometric, ends.first, ends.second, num_sweeps);
}

/// What a search found, with the schedule that it went down.
struct Walked {
  Reads reads;
  std::vector<double> betas;       // of the sweeps, or of a ladder
  std::vector<double> swap_rates;  // of a ladder
  double schedule_seconds = 0;
  std::uint64_t children = 0;
  std::string layout;  // where it is not the one of the reads

  std::size_t best() const {
    return static_cast<std::size_t>(std::min_element(reads.energies.begin(), reads.energies.end()) -
                                    reads.energies.begin());
  }
};

/// Arguments that all problems of a batch share.
struct AnnealArguments {
  std::size_t num_sweeps;
  std::optional<std::pair<double, double>> beta_range;
  bool linear;
  OptionalArray<double> betas;
  AnnealOptions options;
};

inline AnnealArguments anneal_arguments(std::size_t num_sweeps,
                                        const std::optional<std::pair<double, double>>& beta_range, bool linear,
                                        const OptionalArray<double>& betas, bool quench,
                                        const std::optional<std::string>& layout, std::optional<double> target_energy,
                                        bool trace) {
  AnnealArguments arguments{num_sweeps, beta_range, linear, betas, {}};
  arguments.options.quench = quench;
  arguments.options.target_energy = target_energy;
  arguments.options.trace = trace;
  if (layout) arguments.options.layout = layout_named(*layout);
  return arguments;
}

/// Those of one problem.
inline AnnealOptions anneal_options(const QuboHandle& handle, const AnnealArguments& arguments,
                                    const std::vector<double>& betas, std::size_t num_reads, std::uint64_t seed,
                                    int threads, const std::uint8_t* initial_states, bool report) {
  AnnealOptions options = arguments.options;
  options.num_reads = num_reads;
  options.t2 = kernel_temperatures(betas, handle.qubo->scale());
  options.seed = seed;
  options.threads = threads;
  options.initial_states = initial_states;
  options.report = report;
  return options;
}

inline Tenure tenure_of(const Qubo& qubo, std::optional<std::uint32_t> low) {
  Tenure tenure = default_tenure(qubo.size());
  if (low) tenure.low = *low;
  return tenure;
}

/// Arguments of a memetic search that all problems of a batch share.
struct MemeticArguments {
  std::optional<std::uint32_t> tenure;
  MemeticOptions options;
};

inline MemeticArguments memetic_arguments(std::size_t pool_size, std::size_t generations, std::size_t restarts,
                                          std::uint64_t patience, std::optional<std::uint32_t> tenure,
                                          std::optional<double> target_energy, std::size_t keep, bool widen, bool trace,
                                          double until) {
  MemeticArguments arguments;
  arguments.tenure = tenure;
  MemeticOptions& options = arguments.options;
  options.pool_size = pool_size;
  options.generations = generations;
  options.restarts = restarts;
  options.patience = patience;
  options.target_energy = target_energy;
  options.keep = keep;
  options.widen = widen;
  options.trace = trace;
  options.until = until;
  return arguments;
}

/// Those of one problem.
inline MemeticOptions memetic_options(const Qubo& qubo, const MemeticArguments& arguments, std::uint64_t seed,
                                      int threads, const OptionalArray<std::uint8_t>& initial_states, bool report) {
  MemeticOptions options = arguments.options;
  options.tenure = tenure_of(qubo, arguments.tenure);
  options.seed = seed;
  options.threads = threads;
  options.report = report;
  if (initial_states) {
    options.num_initial_states = static_cast<std::size_t>(initial_states->shape(0));
    options.initial_states = checked_states(initial_states, options.num_initial_states, qubo.size());
  }
  return options;
}

}  // namespace isinglass
