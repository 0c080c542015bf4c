// What every binding of a QUBO search shares: the handle, and states in and out.
#pragma once

#include <pybind11/pybind11.h>

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "arrays.hpp"
#include "isinglass/control.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/schedule.hpp"

namespace isinglass {

/// A QUBO together with the NumPy arrays that it views, and its window once someone asked for it.
struct QuboHandle {
  std::vector<py::object> owners;
  std::unique_ptr<Qubo> qubo;
  std::function<Window()> probe;  // where the couplings lie elsewhere
  std::once_flag probed;
  Window window;

  const Window& annealing_window() {
    std::call_once(probed, [this] { window = probe ? probe() : probe_window(*qubo); });
    return window;
  }
};

inline py::array_t<std::int8_t> state_array(const std::vector<std::uint8_t>& states, std::size_t count) {
  const std::size_t n = count == 0 ? 0 : states.size() / count;
  py::array_t<std::int8_t> array({count, n});
  if (!states.empty()) std::memcpy(array.mutable_data(), states.data(), states.size());
  py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}

inline const std::uint8_t* checked_states(const OptionalArray<std::uint8_t>& states, std::size_t reads, std::size_t n) {
  if (!states) return nullptr;
  if (states->ndim() != 2 || static_cast<std::size_t>(states->shape(0)) != reads ||
      static_cast<std::size_t>(states->shape(1)) != n) {
    throw std::invalid_argument("states must be of shape (reads, n)");
  }
  return states->data();
}

inline const char* stop_name(StopReason reason) {
  switch (reason) {
    case StopReason::time_limit:
      return "time_limit";
    case StopReason::interrupted:
      return "interrupted";
    case StopReason::none:
      break;
  }
  return "none";
}

}  // namespace isinglass
