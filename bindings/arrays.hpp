// The one array gate: exact dtype and C order, or a TypeError; nothing is converted or copied here.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace isinglass {

namespace py = pybind11;

template <class T>
using Array = py::array_t<T, py::array::c_style>;
template <class T>
using OptionalArray = std::optional<Array<T>>;

/// Arguments of these types are declared `py::arg(...).noconvert()`.
inline py::arg strict(const char* name) { return py::arg(name).noconvert(); }

template <class T>
std::span<const T> vector_view(const Array<T>& array, const char* name) {
  if (array.ndim() != 1) {
    throw std::invalid_argument(std::string(name) + " must be 1-D, got " + std::to_string(array.ndim()) + "-D");
  }
  return {array.data(), static_cast<std::size_t>(array.size())};
}

template <class T>
std::span<const T> vector_view(const OptionalArray<T>& array, const char* name) {
  return array ? vector_view(*array, name) : std::span<const T>{};
}

/// A read-only NumPy array that owns a copy of `values`.
template <class To, class From>
py::array_t<To> to_array(const std::vector<From>& values) {
  // NumPy's own constructor: pybind11's works out shape, strides and base first, which takes as long as packing a
  // handful of passages.
  auto& api = py::detail::npy_api::get();
  auto size = static_cast<Py_intptr_t>(values.size());
  auto array = py::reinterpret_steal<py::array_t<To>>(api.PyArray_NewFromDescr_(
      api.PyArray_Type_, py::dtype::of<To>().release().ptr(), 1, &size, nullptr, nullptr, 0, nullptr));
  if (!array) throw py::error_already_set();
  To* out = reinterpret_cast<To*>(py::detail::array_proxy(array.ptr())->data);
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<To>(values[i]);
  py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}

}  // namespace isinglass
