// The native base of a packing result: a Python class adds what is made when it is looked at.
#pragma once

#include <pybind11/pybind11.h>

#include "isinglass/greedy.hpp"

namespace isinglass {

namespace py = pybind11;

/// What an answer belongs to, kept for its Python side: the problem, the plan and the request.
struct AnswerContext {
  PyObject* kind;  // the class to make, derived from _core.Packing
  PyObject* problem;
  PyObject* plan;
  PyObject* request;
};

/// Makes an instance of `context.kind`: one allocation and no Python code, since a call of microseconds pays for each.
/// A new reference, or null with an exception set.
PyObject* make_answer(const AnswerContext& context, Packing&& packing);

bool bounded(const Bound& bound);
const char* status_name(const Packing& packing);
const char* bound_name(BoundMethod method);

void register_packing_answer(py::module_& m);

}  // namespace isinglass
