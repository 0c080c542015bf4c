// Python strings as UTF-8.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <vector>

namespace isinglass {

namespace py = pybind11;

/// Python strings seen as UTF-8, without a copy where they are ASCII, and kept alive.
class Strings {
 public:
  std::string_view view(py::handle text) {
    if (!PyUnicode_Check(text.ptr())) {
      throw py::type_error("texts must be strings, got " + std::string(py::str(py::type::handle_of(text))));
    }
    owners_.push_back(py::reinterpret_borrow<py::object>(text));
    Py_ssize_t size = 0;
    if (const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size)) return {utf8, static_cast<std::size_t>(size)};
    // A lone surrogate, which strict UTF-8 has no form for; it is no letter and no space.
    PyErr_Clear();
    PyObject* bytes = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass");
    if (bytes == nullptr) throw py::error_already_set();
    owners_.push_back(py::reinterpret_steal<py::object>(bytes));
    return {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
  }

 private:
  std::vector<py::object> owners_;
};

}  // namespace isinglass
