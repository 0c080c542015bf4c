// Tabu and memetic search of the CUDA back end, and searches of one large model.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "controlled.hpp"
#include "large_memetic.hpp"
#include "large_tabu.hpp"
#include "large_walks.hpp"
#include "memetic.hpp"
#include "qubo_batch.hpp"
#include "qubo_search.hpp"
#include "small_models.hpp"
#include "sparse_walks.hpp"
#include "tabu.hpp"

namespace isinglass {

namespace {

using cuda::MemeticJob;
using cuda::Placement;
using cuda::TabuJob;

std::string small_layout(const Qubo& qubo) { return "warps" + std::to_string(8 * cuda::shape_of(qubo).row_bytes); }

/// Whether compressed rows are the form for a large model: a visit then costs its neighbours, not a flip its row.
bool is_sparse(const Qubo& qubo) {
  constexpr double kSparse = 0.1;
  if (qubo.elsewhere() != nullptr) return false;
  return qubo.density() <= kSparse || qubo.size() > cuda::most_large(qubo);
}

}  // namespace

void register_cuda_search(py::module_& m) {
  m.attr("most_small") = cuda::kMostSmall;
  m.attr("most_large_tabu") = cuda::kMostLargeTabu;
  m.attr("most_pool_size") = cuda::kMostPoolSize;

  m.def(
      "tabu_many",
      [](const std::vector<QuboHandle*>& handles, const std::vector<std::size_t>& num_reads,
         const std::vector<std::uint64_t>& patience, std::uint64_t max_moves, std::optional<std::uint32_t> tenure,
         const std::vector<std::uint64_t>& seeds, int threads,
         const std::vector<OptionalArray<std::uint8_t>>& initial_states, std::optional<double> target_energy,
         bool trace, bool until_stopped, double time_limit, const py::object& progress, const Placement& placement) {
        cuda::check_device(placement.device);
        std::vector<TabuJob> jobs(handles.size());
        for (std::size_t i = 0; i < jobs.size(); ++i) {
          TabuOptions& options = jobs[i].options;
          jobs[i].qubo = handles[i]->qubo.get();
          options.num_reads = num_reads.at(i);
          options.patience = patience.at(i);
          options.max_moves = max_moves;
          options.tenure = tenure_of(*jobs[i].qubo, tenure);
          options.seed = seeds.at(i);
          options.threads = threads;
          options.initial_states = checked_states(initial_states.at(i), num_reads[i], jobs[i].qubo->size());
          options.target_energy = target_energy;
          options.trace = trace;
          options.until_stopped = until_stopped;
        }
        return controlled(time_limit, progress, [&](Control& control) {
          std::vector<Reads> reads = cuda::tabu(jobs, placement, control);
          std::vector<Walked> found(jobs.size());
          for (std::size_t i = 0; i < jobs.size(); ++i) {
            found[i].reads = std::move(reads[i]);
            found[i].layout = small_layout(*jobs[i].qubo);
          }
          return found;
        });
      },
      py::arg("qubos"), py::arg("num_reads"), py::arg("patience"), py::arg("max_moves"), py::arg("tenure"),
      py::arg("seeds"), py::arg("threads"), py::arg("initial_states"), py::arg("target_energy"), py::arg("trace"),
      py::arg("until_stopped"), py::arg("time_limit"), py::arg("progress"), py::arg("placement"));

  m.def(
      "memetic_many",
      [](const std::vector<QuboHandle*>& handles, std::size_t pool_size, std::size_t generations, std::size_t restarts,
         std::uint64_t patience, std::optional<std::uint32_t> tenure, const std::vector<std::uint64_t>& seeds,
         int threads, const std::vector<OptionalArray<std::uint8_t>>& initial_states,
         std::optional<double> target_energy, std::size_t keep, bool widen, bool until_stopped, double time_limit,
         const py::object& progress, const Placement& placement) {
        cuda::check_device(placement.device);
        const MemeticArguments arguments =
            memetic_arguments(pool_size, generations, restarts, patience, tenure, target_energy, keep, widen, false,
                              until_stopped ? time_limit : 0);
        std::vector<MemeticJob> jobs(handles.size());
        for (std::size_t i = 0; i < jobs.size(); ++i) {
          jobs[i] = {handles[i]->qubo.get(),
                     memetic_options(*handles[i]->qubo, arguments, seeds.at(i), threads, initial_states.at(i), true)};
        }
        return controlled(time_limit, progress, [&](Control& control) {
          std::vector<MemeticResult> results = cuda::memetic(jobs, placement, control);
          std::vector<Walked> found(jobs.size());
          for (std::size_t i = 0; i < jobs.size(); ++i) {
            found[i].reads = std::move(results[i].reads);
            found[i].children = results[i].children;
            found[i].layout = small_layout(*jobs[i].qubo);
          }
          return found;
        });
      },
      py::arg("qubos"), py::arg("pool_size"), py::arg("generations"), py::arg("restarts"), py::arg("patience"),
      py::arg("tenure"), py::arg("seeds"), py::arg("threads"), py::arg("initial_states"), py::arg("target_energy"),
      py::arg("keep"), py::arg("widen"), py::arg("until_stopped"), py::arg("time_limit"), py::arg("progress"),
      py::arg("placement"));

  m.def(
      "anneal_large",
      [](QuboHandle& handle, std::size_t num_reads, std::size_t num_sweeps,
         const std::optional<std::pair<double, double>>& beta_range, bool linear, const OptionalArray<double>& betas,
         bool quench, std::uint64_t seed, int threads, const OptionalArray<std::uint8_t>& initial_states,
         std::optional<double> target_energy, double time_limit, const py::object& progress,
         const Placement& placement) {
        cuda::check_device(placement.device);
        const AnnealArguments arguments =
            anneal_arguments(num_sweeps, beta_range, linear, betas, quench, std::nullopt, target_energy, false);
        const std::uint8_t* states = checked_states(initial_states, num_reads, handle.qubo->size());
        return controlled(time_limit, progress, [&](Control& control) {
          Walked walked;
          walked.betas = betas_of(handle, num_sweeps, beta_range, linear, arguments.betas);
          walked.schedule_seconds = control.seconds();
          const AnnealOptions options =
              anneal_options(handle, arguments, walked.betas, num_reads, seed, threads, states, true);
          const bool sparse = is_sparse(*handle.qubo);
          walked.reads = sparse ? cuda::sparse_anneal(*handle.qubo, options, placement, control)
                                : cuda::large_anneal(*handle.qubo, options, placement, control);
          walked.reads.search_seconds += walked.schedule_seconds;
          walked.layout = sparse ? "lanes" : "blocks";
          return walked;
        });
      },
      py::arg("qubo"), py::arg("num_reads"), py::arg("num_sweeps"), py::arg("beta_range"), py::arg("linear"),
      strict("betas"), py::arg("quench"), py::arg("seed"), py::arg("threads"), strict("initial_states"),
      py::arg("target_energy"), py::arg("time_limit"), py::arg("progress"), py::arg("placement"));

  m.def(
      "tabu_large",
      [](QuboHandle& handle, std::size_t num_reads, std::uint64_t patience, std::uint64_t max_moves,
         std::optional<std::uint32_t> tenure, std::uint64_t seed, int threads,
         const OptionalArray<std::uint8_t>& initial_states, std::optional<double> target_energy, bool trace,
         bool until_stopped, double time_limit, const py::object& progress, const Placement& placement) {
        cuda::check_device(placement.device);
        TabuOptions options;
        options.num_reads = num_reads;
        options.patience = patience;
        options.max_moves = max_moves;
        options.tenure = tenure_of(*handle.qubo, tenure);
        options.seed = seed;
        options.threads = threads;
        options.initial_states = checked_states(initial_states, num_reads, handle.qubo->size());
        options.target_energy = target_energy;
        options.trace = trace;
        options.until_stopped = until_stopped;
        return controlled(time_limit, progress, [&](Control& control) {
          Walked walked;
          walked.reads = cuda::large_tabu(*handle.qubo, options, placement, control);
          walked.layout = "blocks";
          return walked;
        });
      },
      py::arg("qubo"), py::arg("num_reads"), py::arg("patience"), py::arg("max_moves"), py::arg("tenure"),
      py::arg("seed"), py::arg("threads"), strict("initial_states"), py::arg("target_energy"), py::arg("trace"),
      py::arg("until_stopped"), py::arg("time_limit"), py::arg("progress"), py::arg("placement"));

  m.def(
      "memetic_large",
      [](QuboHandle& handle, std::size_t pool_size, std::size_t generations, std::size_t restarts,
         std::uint64_t patience, std::optional<std::uint32_t> tenure, std::uint64_t seed, int threads,
         const OptionalArray<std::uint8_t>& initial_states, std::optional<double> target_energy, std::size_t keep,
         bool widen, bool trace, bool until_stopped, double time_limit, const py::object& progress,
         const Placement& placement) {
        cuda::check_device(placement.device);
        const MemeticArguments arguments =
            memetic_arguments(pool_size, generations, restarts, patience, tenure, target_energy, keep, widen, trace,
                              until_stopped ? time_limit : 0);
        const MemeticOptions options = memetic_options(*handle.qubo, arguments, seed, threads, initial_states, true);
        return controlled(time_limit, progress, [&](Control& control) {
          MemeticResult result = cuda::large_memetic(*handle.qubo, options, placement, control);
          Walked walked;
          walked.reads = std::move(result.reads);
          walked.children = result.children;
          walked.layout = "blocks";
          return walked;
        });
      },
      py::arg("qubo"), py::arg("pool_size"), py::arg("generations"), py::arg("restarts"), py::arg("patience"),
      py::arg("tenure"), py::arg("seed"), py::arg("threads"), strict("initial_states"), py::arg("target_energy"),
      py::arg("keep"), py::arg("widen"), py::arg("trace"), py::arg("until_stopped"), py::arg("time_limit"),
      py::arg("progress"), py::arg("placement"));

  m.def(
      "temper_large",
      [](QuboHandle& handle, std::size_t num_reads, std::uint32_t num_sweeps,
         const std::optional<std::pair<double, double>>& beta_range, std::uint64_t seed, int threads,
         const OptionalArray<std::uint8_t>& initial_states, std::optional<double> target_energy, double time_limit,
         const py::object& progress, const Placement& placement) {
        cuda::check_device(placement.device);
        const double scale = handle.qubo->scale();
        TemperOptions options;
        options.num_reads = num_reads;
        options.num_sweeps = num_sweeps;
        options.seed = seed;
        options.threads = threads;
        options.initial_states = checked_states(initial_states, num_reads, handle.qubo->size());
        options.target_energy = target_energy;
        return controlled(time_limit, progress, [&](Control& control) {
          options.window =
              beta_range ? Window{scale / beta_range->first, scale / beta_range->second} : handle.annealing_window();
          Walked walked;
          walked.schedule_seconds = control.seconds();
          const bool sparse = is_sparse(*handle.qubo);
          Tempered tempered = sparse ? cuda::sparse_temper(*handle.qubo, options, placement, control)
                                     : cuda::large_temper(*handle.qubo, options, placement, control);
          walked.reads = std::move(tempered.reads);
          walked.reads.search_seconds += walked.schedule_seconds;
          for (double temperature : tempered.ladder) walked.betas.push_back(scale / temperature);
          walked.swap_rates = std::move(tempered.swap_rates);
          walked.layout = sparse ? "lanes" : "blocks";
          return walked;
        });
      },
      py::arg("qubo"), py::arg("num_reads"), py::arg("num_sweeps"), py::arg("beta_range"), py::arg("seed"),
      py::arg("threads"), strict("initial_states"), py::arg("target_energy"), py::arg("time_limit"),
      py::arg("progress"), py::arg("placement"));
}

}  // namespace isinglass
