#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <stdexcept>

#include "arrays.hpp"
#include "controlled.hpp"
#include "isinglass/exact.hpp"
#include "qubo_handle.hpp"

namespace isinglass {

void register_exact(py::module_& m) {
  py::class_<Proof>(m, "Proof")
      .def_property_readonly("samples", [](const Proof& self) { return state_array(self.states, self.count); })
      .def_property_readonly("energies", [](const Proof& self) { return to_array<double>(self.energies); })
      .def_readonly("lower_bound", &Proof::lower_bound)
      .def_readonly("root_bound", &Proof::root_bound)
      .def_readonly("proved", &Proof::proved)
      .def_readonly("nodes", &Proof::nodes)
      .def_readonly("reduced", &Proof::reduced)
      .def_property_readonly("stopped", [](const Proof& self) { return stop_name(self.stopped); })
      .def_readonly("start_seconds", &Proof::start_seconds)
      .def_readonly("search_seconds", &Proof::search_seconds);

  m.def(
      "exact",
      [](QuboHandle& handle, std::size_t num_solutions, std::optional<std::uint64_t> node_limit, std::uint64_t seed,
         const OptionalArray<std::uint8_t>& initial_states, std::size_t memory_limit, double time_limit,
         const py::object& progress) {
        ExactOptions options;
        options.num_solutions = num_solutions;
        options.node_limit = node_limit;
        options.seed = seed;
        options.num_initial = initial_states ? static_cast<std::size_t>(initial_states->shape(0)) : 0;
        options.initial_states = checked_states(initial_states, options.num_initial, handle.qubo->size());
        options.memory_limit = memory_limit;
        try {
          return controlled(time_limit, progress,
                            [&](Control& control) { return exact(*handle.qubo, options, control); });
        } catch (const std::length_error& error) {
          PyErr_SetString(PyExc_MemoryError, error.what());
          throw py::error_already_set();
        }
      },
      py::arg("qubo"), py::arg("num_solutions"), py::arg("node_limit"), py::arg("seed"), strict("initial_states"),
      py::arg("memory_limit"), py::arg("time_limit"), py::arg("progress"));
}

}  // namespace isinglass
