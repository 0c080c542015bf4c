#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "isinglass/isa.hpp"
#include "isinglass/parallel.hpp"
#include "isinglass/random.hpp"

namespace py = pybind11;

namespace isinglass {
void register_bridge(py::module_& m);
void register_diagnosis(py::module_& m);
void register_fold(py::module_& m);
void register_gate(py::module_& m);
void register_evidence(py::module_& m);
void register_packing(py::module_& m);
void register_exact(py::module_& m);
void register_qubo(py::module_& m);
}  // namespace isinglass

PYBIND11_MODULE(_core, m, py::mod_gil_not_used()) {
  m.doc() = "Native core of isinglass. Private: use the isinglass package.";
  m.attr("__version__") = ISINGLASS_VERSION;

  if (const char* forced = std::getenv("ISINGLASS_ISA"); forced != nullptr && *forced != '\0') {
    isinglass::force_level(forced);
  }
  m.def("isa_levels", [] {
    std::vector<std::string> names;
    for (isinglass::Level level : isinglass::available_levels()) names.emplace_back(isinglass::name(level));
    return names;
  });
  m.def("isa", [] { return std::string(isinglass::name(isinglass::level())); });
  m.def("force_isa", &isinglass::force_level, py::arg("level"));
  m.def("available_cores", &isinglass::available_cores);
  m.def(
      "random_bits",
      [](std::uint64_t seed, std::uint64_t read, std::uint32_t sweep, std::uint32_t variable) {
        return isinglass::random_bits(seed, read, sweep, variable);
      },
      py::arg("seed"), py::arg("read"), py::arg("sweep"), py::arg("variable"));

  isinglass::register_bridge(m);
  isinglass::register_diagnosis(m);
  isinglass::register_fold(m);
  isinglass::register_gate(m);
  isinglass::register_evidence(m);
  isinglass::register_packing(m);
  isinglass::register_qubo(m);
  isinglass::register_exact(m);
}
