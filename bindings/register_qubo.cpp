#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "controlled.hpp"
#include "isinglass/anneal.hpp"
#include "isinglass/descent.hpp"
#include "isinglass/memetic.hpp"
#include "isinglass/parallel.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/schedule.hpp"
#include "isinglass/tabu.hpp"
#include "isinglass/temper.hpp"
#include "qubo_handle.hpp"
#include "qubo_search.hpp"

namespace isinglass {
namespace {

std::unique_ptr<QuboHandle> make_qubo(const Array<double>& linear, const OptionalArray<double>& dense,
                                      const OptionalArray<std::int64_t>& row_start,
                                      const OptionalArray<std::int32_t>& neighbour,
                                      const OptionalArray<double>& coupling, double offset,
                                      std::optional<double> scale) {
  auto handle = std::make_unique<QuboHandle>();
  QuboView view;
  view.linear = vector_view(linear, "linear");
  view.n = view.linear.size();
  view.offset = offset;
  handle->owners.push_back(linear);
  if (dense) {
    if (dense->ndim() != 2 || static_cast<std::size_t>(dense->shape(0)) != view.n ||
        static_cast<std::size_t>(dense->shape(1)) != view.n) {
      throw std::invalid_argument("dense must be of shape (n, n)");
    }
    view.dense = dense->data();
    handle->owners.push_back(*dense);
  } else {
    view.row_start = vector_view(row_start, "row_start");
    view.neighbour = vector_view(neighbour, "neighbour");
    view.coupling = vector_view(coupling, "coupling");
    if (view.row_start.size() != view.n + 1 || view.neighbour.size() != view.coupling.size() ||
        view.row_start.back() != static_cast<std::int64_t>(view.neighbour.size())) {
      throw std::invalid_argument("row_start, neighbour and coupling must be compressed rows");
    }
    handle->owners.push_back(*row_start);
    handle->owners.push_back(*neighbour);
    handle->owners.push_back(*coupling);
  }
  py::gil_scoped_release nogil;
  handle->qubo = std::make_unique<Qubo>(view, scale);
  return handle;
}

ReadOptions read_options(const QuboHandle& handle, std::size_t num_reads, std::uint64_t seed, int threads,
                         const std::optional<std::string>& layout, const OptionalArray<std::uint8_t>& initial_states,
                         std::optional<double> target_energy) {
  ReadOptions options;
  options.num_reads = num_reads;
  options.seed = seed;
  options.threads = threads;
  if (layout) options.layout = layout_named(*layout);
  options.initial_states = checked_states(initial_states, num_reads, handle.qubo->size());
  options.target_energy = target_energy;
  return options;
}

Walked run_anneal(QuboHandle& handle, const AnnealArguments& arguments, std::size_t num_reads, std::uint64_t seed,
                  int threads, const std::uint8_t* initial_states, bool report, Control& control) {
  const double begin = control.seconds();
  Walked walked;
  walked.betas = betas_of(handle, arguments.num_sweeps, arguments.beta_range, arguments.linear, arguments.betas);
  walked.schedule_seconds = control.seconds() - begin;
  const AnnealOptions options =
      anneal_options(handle, arguments, walked.betas, num_reads, seed, threads, initial_states, report);
  walked.reads = anneal(*handle.qubo, options, control);
  return walked;
}

Walked run_memetic(QuboHandle& handle, const MemeticArguments& arguments, std::uint64_t seed, int threads,
                   const OptionalArray<std::uint8_t>& initial_states, bool report, Control& control) {
  const MemeticOptions options = memetic_options(*handle.qubo, arguments, seed, threads, initial_states, report);
  MemeticResult found = memetic(*handle.qubo, options, control);
  Walked walked;
  walked.reads = std::move(found.reads);
  walked.children = found.children;
  return walked;
}

}  // namespace

void register_qubo(py::module_& m) {
  py::class_<QuboHandle>(m, "QuboCore")
      .def(py::init(&make_qubo), strict("linear"), strict("dense"), strict("row_start"), strict("neighbour"),
           strict("coupling"), py::arg("offset"), py::arg("scale"))
      .def_property_readonly("scale", [](const QuboHandle& self) { return self.qubo->scale(); })
      .def_property_readonly("exact", [](const QuboHandle& self) { return self.qubo->exact(); })
      .def_property_readonly("max_error", [](const QuboHandle& self) { return self.qubo->max_error(); })
      .def_property_readonly("num_couplings", [](const QuboHandle& self) { return self.qubo->num_couplings(); })
      .def_property_readonly("worst_field", [](const QuboHandle& self) { return self.qubo->worst_field(); })
      .def_property_readonly("window",
                             [](QuboHandle& self) {
                               const Window& w = self.annealing_window();
                               return py::make_tuple(w.hot, w.cold);
                             })
      .def_property_readonly("layouts",
                             [](const QuboHandle& self) {
                               std::vector<std::string> fit;
                               for (Layout layout : all_layouts()) {
                                 if (unfit(*self.qubo, layout).empty()) fit.emplace_back(name(layout));
                               }
                               return fit;
                             })
      .def(
          "energies",
          [](const QuboHandle& self, const Array<std::uint8_t>& states) {
            const QuboView& view = self.qubo->view();
            const auto reads = static_cast<std::size_t>(states.ndim() == 2 ? states.shape(0) : 0);
            const std::uint8_t* bytes = checked_states(states, reads, view.n);
            std::vector<double> values(reads);
            {
              py::gil_scoped_release nogil;
              energies(view, bytes, reads, values.data());
            }
            return to_array<double>(values);
          },
          strict("states"));

  py::class_<Walked>(m, "Walked")
      .def_property_readonly("samples",
                             [](const Walked& self) { return state_array(self.reads.states, self.reads.count); })
      .def_property_readonly("energies", [](const Walked& self) { return to_array<double>(self.reads.energies); })
      .def_property_readonly("best", &Walked::best)
      .def_property_readonly("energy", [](const Walked& self) { return self.reads.energies[self.best()]; })
      .def_property_readonly("flips", [](const Walked& self) { return to_array<std::int64_t>(self.reads.flips); })
      .def_property_readonly("trace", [](const Walked& self) { return to_array<double>(self.reads.trace); })
      .def_property_readonly("generations", [](const Walked& self) { return self.reads.generations; })
      .def_property_readonly(
          "layout",
          [](const Walked& self) { return self.layout.empty() ? std::string(name(self.reads.layout)) : self.layout; })
      .def_property_readonly("stopped", [](const Walked& self) { return stop_name(self.reads.stopped); })
      .def_property_readonly("target_reached", [](const Walked& self) { return self.reads.target_reached; })
      .def_property_readonly("betas", [](const Walked& self) { return to_array<double>(self.betas); })
      .def_property_readonly("swap_rates", [](const Walked& self) { return to_array<double>(self.swap_rates); })
      .def_readonly("children", &Walked::children)
      .def_readonly("schedule_seconds", &Walked::schedule_seconds)
      .def_property_readonly("search_seconds", [](const Walked& self) { return self.reads.search_seconds; });

  m.def(
      "anneal",
      [](QuboHandle& handle, std::size_t num_reads, std::size_t num_sweeps,
         const std::optional<std::pair<double, double>>& beta_range, bool linear, const OptionalArray<double>& betas,
         bool quench, std::uint64_t seed, int threads, const std::optional<std::string>& layout,
         const OptionalArray<std::uint8_t>& initial_states, std::optional<double> target_energy, bool trace,
         double time_limit, const py::object& progress) {
        const AnnealArguments arguments =
            anneal_arguments(num_sweeps, beta_range, linear, betas, quench, layout, target_energy, trace);
        const std::uint8_t* states = checked_states(initial_states, num_reads, handle.qubo->size());
        return controlled(time_limit, progress, [&](Control& control) {
          return run_anneal(handle, arguments, num_reads, seed, threads, states, true, control);
        });
      },
      py::arg("qubo"), py::arg("num_reads"), py::arg("num_sweeps"), py::arg("beta_range"), py::arg("linear"),
      strict("betas"), py::arg("quench"), py::arg("seed"), py::arg("threads"), py::arg("layout"),
      strict("initial_states"), py::arg("target_energy"), py::arg("trace"), py::arg("time_limit"), py::arg("progress"));

  m.def(
      "temper",
      [](QuboHandle& handle, std::size_t num_reads, std::uint32_t num_sweeps,
         const std::optional<std::pair<double, double>>& beta_range, std::uint64_t seed, int threads,
         const std::optional<std::string>& layout, const OptionalArray<std::uint8_t>& initial_states,
         std::optional<double> target_energy, double time_limit, const py::object& progress) {
        const double scale = handle.qubo->scale();
        TemperOptions options;
        static_cast<ReadOptions&>(options) =
            read_options(handle, num_reads, seed, threads, layout, initial_states, target_energy);
        options.num_sweeps = num_sweeps;
        return controlled(time_limit, progress, [&](Control& control) {
          options.window =
              beta_range ? Window{scale / beta_range->first, scale / beta_range->second} : handle.annealing_window();
          Walked walked;
          walked.schedule_seconds = control.seconds();
          Tempered tempered = temper(*handle.qubo, options, control);
          walked.reads = std::move(tempered.reads);
          for (double temperature : tempered.ladder) walked.betas.push_back(scale / temperature);
          walked.swap_rates = std::move(tempered.swap_rates);
          return walked;
        });
      },
      py::arg("qubo"), py::arg("num_reads"), py::arg("num_sweeps"), py::arg("beta_range"), py::arg("seed"),
      py::arg("threads"), py::arg("layout"), strict("initial_states"), py::arg("target_energy"), py::arg("time_limit"),
      py::arg("progress"));

  m.def(
      "descend",
      [](QuboHandle& handle, bool steepest, std::size_t num_reads, std::uint64_t seed, int threads,
         const std::optional<std::string>& layout, const OptionalArray<std::uint8_t>& initial_states,
         std::optional<double> target_energy, double time_limit, const py::object& progress) {
        const ReadOptions options =
            read_options(handle, num_reads, seed, threads, layout, initial_states, target_energy);
        return controlled(time_limit, progress, [&](Control& control) {
          Walked walked;
          walked.reads = descend(*handle.qubo, steepest ? Descent::steepest : Descent::first, options, control);
          return walked;
        });
      },
      py::arg("qubo"), py::arg("steepest"), py::arg("num_reads"), py::arg("seed"), py::arg("threads"),
      py::arg("layout"), strict("initial_states"), py::arg("target_energy"), py::arg("time_limit"),
      py::arg("progress"));

  // One problem after another on each thread, each exactly as `anneal` would walk it.
  m.def(
      "anneal_many",
      [](const std::vector<QuboHandle*>& handles, const std::vector<std::size_t>& num_reads, std::size_t num_sweeps,
         const std::optional<std::pair<double, double>>& beta_range, bool linear, const OptionalArray<double>& betas,
         bool quench, const std::vector<std::uint64_t>& seeds, int threads, const std::optional<std::string>& layout,
         const std::vector<OptionalArray<std::uint8_t>>& initial_states, std::optional<double> target_energy,
         bool trace, double time_limit, const py::object& progress) {
        const AnnealArguments arguments =
            anneal_arguments(num_sweeps, beta_range, linear, betas, quench, layout, target_energy, trace);
        std::vector<const std::uint8_t*> states;
        for (std::size_t i = 0; i < handles.size(); ++i) {
          states.push_back(checked_states(initial_states.at(i), num_reads.at(i), handles[i]->qubo->size()));
        }
        return controlled(time_limit, progress, [&](Control& control) {
          std::vector<Walked> found(handles.size());
          std::vector<std::uint8_t> begun(handles.size());
          std::atomic<std::size_t> done{0};
          const auto walk = [&](std::size_t i) {
            begun[i] = 1;
            found[i] = run_anneal(*handles[i], arguments, num_reads[i], seeds.at(i), 1, states[i], false, control);
            control.report(static_cast<double>(++done) / static_cast<double>(handles.size()));
          };
          parallel_for(handles.size(), threads, control, walk);
          for (std::size_t i = 0; i < handles.size(); ++i) {
            if (!begun[i]) walk(i);  // stopped: a quenched start
          }
          return found;
        });
      },
      py::arg("qubos"), py::arg("num_reads"), py::arg("num_sweeps"), py::arg("beta_range"), py::arg("linear"),
      strict("betas"), py::arg("quench"), py::arg("seeds"), py::arg("threads"), py::arg("layout"),
      py::arg("initial_states"), py::arg("target_energy"), py::arg("trace"), py::arg("time_limit"),
      py::arg("progress"));

  m.def(
      "tabu",
      [](QuboHandle& handle, std::size_t num_reads, std::uint64_t patience, std::uint64_t max_moves,
         std::optional<std::uint32_t> tenure, std::uint64_t seed, int threads, const std::optional<std::string>& layout,
         const OptionalArray<std::uint8_t>& initial_states, std::optional<double> target_energy, bool trace,
         bool until_stopped, double time_limit, const py::object& progress) {
        TabuOptions options;
        options.num_reads = num_reads;
        options.patience = patience;
        options.max_moves = max_moves;
        options.tenure = tenure_of(*handle.qubo, tenure);
        options.seed = seed;
        options.threads = threads;
        if (layout) options.layout = layout_named(*layout);
        options.initial_states = checked_states(initial_states, num_reads, handle.qubo->size());
        options.target_energy = target_energy;
        options.trace = trace;
        options.until_stopped = until_stopped;
        return controlled(time_limit, progress, [&](Control& control) {
          Walked walked;
          walked.reads = tabu(*handle.qubo, options, control);
          return walked;
        });
      },
      py::arg("qubo"), py::arg("num_reads"), py::arg("patience"), py::arg("max_moves"), py::arg("tenure"),
      py::arg("seed"), py::arg("threads"), py::arg("layout"), strict("initial_states"), py::arg("target_energy"),
      py::arg("trace"), py::arg("until_stopped"), py::arg("time_limit"), py::arg("progress"));

  m.def(
      "memetic",
      [](QuboHandle& handle, std::size_t pool_size, std::size_t generations, std::size_t restarts,
         std::uint64_t patience, std::optional<std::uint32_t> tenure, std::uint64_t seed, int threads,
         const OptionalArray<std::uint8_t>& initial_states, std::optional<double> target_energy, std::size_t keep,
         bool widen, bool trace, bool until_stopped, double time_limit, const py::object& progress) {
        const MemeticArguments arguments =
            memetic_arguments(pool_size, generations, restarts, patience, tenure, target_energy, keep, widen, trace,
                              until_stopped ? time_limit : 0);
        return controlled(time_limit, progress, [&](Control& control) {
          return run_memetic(handle, arguments, seed, threads, initial_states, true, control);
        });
      },
      py::arg("qubo"), py::arg("pool_size"), py::arg("generations"), py::arg("restarts"), py::arg("patience"),
      py::arg("tenure"), py::arg("seed"), py::arg("threads"), strict("initial_states"), py::arg("target_energy"),
      py::arg("keep"), py::arg("widen"), py::arg("trace"), py::arg("until_stopped"), py::arg("time_limit"),
      py::arg("progress"));

  // One problem after another on each thread, each exactly as `memetic` would search it.
  m.def(
      "memetic_many",
      [](const std::vector<QuboHandle*>& handles, std::size_t pool_size, std::size_t generations, std::size_t restarts,
         std::uint64_t patience, std::optional<std::uint32_t> tenure, const std::vector<std::uint64_t>& seeds,
         int threads, const std::vector<OptionalArray<std::uint8_t>>& initial_states,
         std::optional<double> target_energy, std::size_t keep, bool widen, bool trace, double time_limit,
         const py::object& progress) {
        // The time limit is of the whole call: each problem ends by its own counters.
        const MemeticArguments arguments =
            memetic_arguments(pool_size, generations, restarts, patience, tenure, target_energy, keep, widen, trace, 0);
        return controlled(time_limit, progress, [&](Control& control) {
          std::vector<Walked> found(handles.size());
          std::vector<std::uint8_t> begun(handles.size());
          std::atomic<std::size_t> done{0};
          const auto walk = [&](std::size_t i) {
            begun[i] = 1;
            found[i] = run_memetic(*handles[i], arguments, seeds.at(i), 1, initial_states.at(i), false, control);
            control.report(static_cast<double>(++done) / static_cast<double>(handles.size()));
          };
          parallel_for(handles.size(), threads, control, walk);
          for (std::size_t i = 0; i < handles.size(); ++i) {
            if (!begun[i]) walk(i);  // stopped: quenched starts
          }
          return found;
        });
      },
      py::arg("qubos"), py::arg("pool_size"), py::arg("generations"), py::arg("restarts"), py::arg("patience"),
      py::arg("tenure"), py::arg("seeds"), py::arg("threads"), py::arg("initial_states"), py::arg("target_energy"),
      py::arg("keep"), py::arg("widen"), py::arg("trace"), py::arg("time_limit"), py::arg("progress"));
}

}  // namespace isinglass
