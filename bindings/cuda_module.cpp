// The CUDA back end, over the device (_cuda) or over host emulation (_cuda_emulated, for tests).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "anneal_batch.hpp"
#include "arrays.hpp"
#include "controlled.hpp"
#include "driver.hpp"
#include "qubo_search.hpp"
#include "runtime.hpp"
#include "temper_batch.hpp"

#if defined(ISINGLASS_EMULATED)
#include "driver_emulated.hpp"
#include "host_emulation.hpp"
#endif

namespace py = pybind11;

namespace isinglass {

void register_cuda_arrays(py::module_& m);
void register_cuda_evidence(py::module_& m);
void register_cuda_packing(py::module_& m);
void register_cuda_search(py::module_& m);

}  // namespace isinglass

namespace isinglass::cuda {
namespace {

#if defined(ISINGLASS_EMULATED)
/// What tests set: the order of threads, what memory holds, barriers to leave out, and the devices themselves.
void register_emulation(py::module_& m) {
  using driver::EmulatedDevices;
  using emulation::Site;
  py::class_<EmulatedDevices>(m, "EmulatedDevices")
      .def_readwrite("count", &EmulatedDevices::count)
      .def_readwrite("unavailable", &EmulatedDevices::unavailable)
      .def_readwrite("memory", &EmulatedDevices::memory)
      .def_readwrite("shared_bytes", &EmulatedDevices::shared_bytes)
      .def_readwrite("failure", &EmulatedDevices::failure)
      .def_readwrite("launches", &EmulatedDevices::launches)
      .def_readwrite("replays", &EmulatedDevices::replays)
      .def_readwrite("released_unknown", &EmulatedDevices::released_unknown)
      .def_readwrite("held_at_reset", &EmulatedDevices::held_at_reset)
      .def_readwrite("of_others", &EmulatedDevices::of_others);
  m.def("devices", &driver::emulated_devices, py::return_value_policy::reference);
  m.def("order_threads", [](std::uint64_t seed) { emulation::settings().order_seed = seed; }, py::arg("seed"));
  m.def("fill_memory", [](unsigned char pattern) { emulation::settings().pattern = pattern; }, py::arg("pattern"));
  m.def(
      "skip_barrier", [](std::string file, unsigned line) { emulation::settings().skipped = {std::move(file), line}; },
      py::arg("file"), py::arg("line"));
  m.def("take_barriers", [] {
    py::list sites;
    for (const Site& site : emulation::take_barriers()) sites.append(py::make_tuple(site.file, site.line));
    return sites;
  });
}
#endif

/// Refuses models that are too large, by their place in the batch.
void check_sizes(const std::vector<QuboHandle*>& handles) {
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (const std::string_view reason = no_shape(*handles[i]->qubo); !reason.empty()) {
      throw std::invalid_argument("backend 'cuda' " + std::string(reason) + ", got " +
                                  std::to_string(handles[i]->qubo->size()) +
                                  (handles.size() == 1 ? "" : " for problem " + std::to_string(i)));
    }
  }
}

std::string layout_of(const Qubo& qubo, std::size_t shared_bytes) {
  return "warps" + std::to_string(row_shape(qubo, shared_bytes).bits);
}

void register_anneal(py::module_& m) {
  m.def(
      "anneal_many",
      [](const std::vector<QuboHandle*>& handles, const std::vector<std::size_t>& num_reads, std::size_t num_sweeps,
         const std::optional<std::pair<double, double>>& beta_range, bool linear, const OptionalArray<double>& betas,
         bool quench, const std::vector<std::uint64_t>& seeds, int threads,
         const std::vector<OptionalArray<std::uint8_t>>& initial_states, std::optional<double> target_energy,
         bool trace, double time_limit, const py::object& progress, const Placement& placement) {
        check_device(placement.device);
        check_sizes(handles);
        const AnnealArguments arguments =
            anneal_arguments(num_sweeps, beta_range, linear, betas, quench, std::nullopt, target_energy, trace);
        std::vector<const std::uint8_t*> states;
        for (std::size_t i = 0; i < handles.size(); ++i) {
          states.push_back(checked_states(initial_states.at(i), num_reads.at(i), handles[i]->qubo->size()));
        }
        return controlled(time_limit, progress, [&](Control& control) {
          std::vector<Walked> found(handles.size());
          std::vector<AnnealJob> jobs(handles.size());
          on_threads(handles.size(), threads, [&](std::size_t i) {
            QuboHandle& handle = *handles[i];
            found[i].betas =
                betas_of(handle, arguments.num_sweeps, arguments.beta_range, arguments.linear, arguments.betas);
            jobs[i] = {handle.qubo.get(), anneal_options(handle, arguments, found[i].betas, num_reads[i], seeds.at(i),
                                                         1, states[i], false)};
          });
          const double scheduled = control.seconds();
          std::vector<Reads> reads = anneal(jobs, placement, threads, control);
          const std::size_t shared_bytes = driver::info(placement.device).shared_bytes;
          for (std::size_t i = 0; i < handles.size(); ++i) {
            found[i].reads = std::move(reads[i]);
            found[i].schedule_seconds = scheduled;
            found[i].reads.search_seconds += scheduled;
            found[i].layout = layout_of(*handles[i]->qubo, shared_bytes);
          }
          return found;
        });
      },
      py::arg("qubos"), py::arg("num_reads"), py::arg("num_sweeps"), py::arg("beta_range"), py::arg("linear"),
      strict("betas"), py::arg("quench"), py::arg("seeds"), py::arg("threads"), py::arg("initial_states"),
      py::arg("target_energy"), py::arg("trace"), py::arg("time_limit"), py::arg("progress"), py::arg("placement"));
}

void register_temper(py::module_& m) {
  m.def(
      "temper_many",
      [](const std::vector<QuboHandle*>& handles, const std::vector<std::size_t>& num_reads, std::uint32_t num_sweeps,
         const std::optional<std::pair<double, double>>& beta_range, const std::vector<std::uint64_t>& seeds,
         int threads, const std::vector<OptionalArray<std::uint8_t>>& initial_states,
         std::optional<double> target_energy, double time_limit, const py::object& progress,
         const Placement& placement) {
        check_device(placement.device);
        check_sizes(handles);
        std::vector<TemperJob> jobs(handles.size());
        for (std::size_t i = 0; i < handles.size(); ++i) {
          TemperOptions& options = jobs[i].options;
          jobs[i].qubo = handles[i]->qubo.get();
          options.num_reads = num_reads.at(i);
          options.seed = seeds.at(i);
          options.num_sweeps = num_sweeps;
          options.target_energy = target_energy;
          options.initial_states = checked_states(initial_states.at(i), num_reads.at(i), jobs[i].qubo->size());
        }
        return controlled(time_limit, progress, [&](Control& control) {
          on_threads(jobs.size(), threads, [&](std::size_t i) {
            const double scale = jobs[i].qubo->scale();
            jobs[i].options.window = beta_range ? Window{scale / beta_range->first, scale / beta_range->second}
                                                : handles[i]->annealing_window();
          });
          const double scheduled = control.seconds();
          std::vector<Tempered> tempered = temper(jobs, placement, threads, control);
          const std::size_t shared_bytes = driver::info(placement.device).shared_bytes;
          std::vector<Walked> found(jobs.size());
          for (std::size_t i = 0; i < jobs.size(); ++i) {
            found[i].reads = std::move(tempered[i].reads);
            for (double t : tempered[i].ladder) found[i].betas.push_back(jobs[i].qubo->scale() / t);
            found[i].swap_rates = std::move(tempered[i].swap_rates);
            found[i].schedule_seconds = scheduled;
            found[i].reads.search_seconds += scheduled;
            found[i].layout = layout_of(*jobs[i].qubo, shared_bytes);
          }
          return found;
        });
      },
      py::arg("qubos"), py::arg("num_reads"), py::arg("num_sweeps"), py::arg("beta_range"), py::arg("seeds"),
      py::arg("threads"), py::arg("initial_states"), py::arg("target_energy"), py::arg("time_limit"),
      py::arg("progress"), py::arg("placement"));
}

}  // namespace
}  // namespace isinglass::cuda

PYBIND11_MODULE(ISINGLASS_CUDA_MODULE, m, py::mod_gil_not_used()) {
  using namespace isinglass::cuda;
  py::module_::import("isinglass._core");  // its objects are what this module's functions take and return
  m.doc() = "CUDA back end of isinglass. Private: use the isinglass package.";
  py::register_local_exception<DeviceError>(m, "DeviceError", PyExc_RuntimeError);
  m.def("unavailable", &driver::unavailable);
  m.def("device_count", &driver::device_count);
  m.def("kernel_seconds", &kernel_seconds);
  m.def("use_graphs", &use_graphs, py::arg("wanted"));
  m.def(
      "device_of", [](std::uintptr_t memory) { return driver::device_of(reinterpret_cast<const void*>(memory)); },
      py::arg("memory"));
  m.def(
      "device",
      [](int device) {
        check_device(device);
        const DeviceInfo info = driver::info(device);
        py::dict found;
        found["name"] = info.name;
        found["architecture"] = info.architecture;
        found["multiprocessors"] = info.multiprocessors;
        found["clock_hertz"] = info.clock_hertz;
        found["memory"] = info.memory;
        return found;
      },
      py::arg("device"));
  isinglass::register_cuda_arrays(m);
  py::class_<Placement>(m, "Placement", py::module_local())
      .def(py::init([](int device, unsigned warps, std::uint64_t slice, std::size_t portion) {
             return Placement{device, warps, slice, portion, nullptr};
           }),
           py::arg("device") = 0, py::arg("warps") = 0, py::arg("slice") = 0, py::arg("portion") = 0)
      .def_readonly("device", &Placement::device)
      .def_readwrite("samples", &Placement::samples);
  register_anneal(m);
  register_temper(m);
  isinglass::register_cuda_evidence(m);
  isinglass::register_cuda_packing(m);
  isinglass::register_cuda_search(m);
#if defined(ISINGLASS_EMULATED)
  register_emulation(m);
#endif
}
