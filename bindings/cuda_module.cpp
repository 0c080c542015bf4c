// The CUDA back end, over the device (_cuda) or over host emulation (_cuda_emulated, for tests).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#include "driver.hpp"
#include "runtime.hpp"

#if defined(ISINGLASS_EMULATED)
#include "driver_emulated.hpp"
#include "host_emulation.hpp"
#endif

namespace py = pybind11;

namespace isinglass {

void register_cuda_evidence(py::module_& m);
void register_cuda_packing(py::module_& m);

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
      .def_readwrite("launches", &EmulatedDevices::launches);
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

}  // namespace
}  // namespace isinglass::cuda

PYBIND11_MODULE(ISINGLASS_CUDA_MODULE, m, py::mod_gil_not_used()) {
  using namespace isinglass::cuda;
  py::module_::import("isinglass._core");  // its objects are what this module's functions take and return
  m.doc() = "CUDA back end of isinglass. Private: use the isinglass package.";
  py::register_exception<DeviceError>(m, "DeviceError", PyExc_RuntimeError);
  m.def("unavailable", &driver::unavailable);
  m.def("device_count", &driver::device_count);
  m.def(
      "device",
      [](int device) {
        check_device(device);
        const DeviceInfo info = driver::info(device);
        py::dict found;
        found["name"] = info.name;
        found["architecture"] = info.architecture;
        found["multiprocessors"] = info.multiprocessors;
        found["memory"] = info.memory;
        return found;
      },
      py::arg("device"));
  isinglass::register_cuda_evidence(m);
  isinglass::register_cuda_packing(m);
#if defined(ISINGLASS_EMULATED)
  register_emulation(m);
#endif
}
