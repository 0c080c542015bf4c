// Runs a native call without the GIL, under a Control that hears Ctrl-C.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <utility>

#include "isinglass/control.hpp"

namespace isinglass {

namespace py = pybind11;

/// body(control) without the GIL. A pending signal ends it, and its exception (KeyboardInterrupt) is raised; so is one
/// that the progress callback raised. Away from Python's main thread signals are not asked for, by Python's own rule.
template <class Body>
auto controlled(double time_limit, const py::object& progress, Body body) {
  std::exception_ptr raised;
  const auto guarded = [&raised](auto&& action) {
    py::gil_scoped_acquire gil;
    try {
      action();
    } catch (...) {
      raised = std::current_exception();
    }
  };
  Control control(
      time_limit,
      [&] {
        guarded([] {
          if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        });
        return raised != nullptr;
      },
      progress.is_none() ? std::function<void(double)>{} : [&](double share) { guarded([&] { progress(share); }); });
  auto result = [&] {
    py::gil_scoped_release nogil;
    return body(control);
  }();
  if (raised) std::rethrow_exception(raised);
  return result;
}

}  // namespace isinglass
