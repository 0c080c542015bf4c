#include "packing_answer.hpp"

#include <atomic>
#include <cmath>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "arrays.hpp"

namespace isinglass {
namespace {

struct Answer {
  PyObject_HEAD Packing packing;
  std::atomic<PyObject*> selection;  // the array, once someone asked
  PyObject* problem;
  PyObject* plan;
  PyObject* request;
};

PyTypeObject* answer_type = nullptr;

Answer& of(PyObject* self) { return *reinterpret_cast<Answer*>(self); }

void destroy(PyObject* self) {
  Answer& answer = of(self);
  PyTypeObject* const type = Py_TYPE(self);
  Py_XDECREF(answer.selection.load(std::memory_order_relaxed));
  Py_XDECREF(answer.problem);
  Py_XDECREF(answer.plan);
  Py_XDECREF(answer.request);
  answer.packing.~Packing();
  type->tp_free(self);
  Py_DECREF(type);
}

/// Turns C++ exceptions into Python's.
template <class Make>
PyObject* guarded(Make make) {
  try {
    return make();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return nullptr;
}

PyObject* selection(PyObject* self, void*) {
  Answer& answer = of(self);
  PyObject* kept = answer.selection.load(std::memory_order_acquire);
  if (kept == nullptr) {
    PyObject* made = guarded([&] { return to_array<std::int64_t>(answer.packing.selection).release().ptr(); });
    if (made == nullptr) return nullptr;
    if (answer.selection.compare_exchange_strong(kept, made, std::memory_order_acq_rel)) {
      kept = made;
    } else {
      Py_DECREF(made);  // another thread was first
    }
  }
  return Py_NewRef(kept);
}

PyObject* text(std::string_view value) {
  return PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
}

template <double Packing::* member>
PyObject* number(PyObject* self, void*) {
  return PyFloat_FromDouble(of(self).packing.*member);
}
template <std::size_t Packing::* member>
PyObject* count(PyObject* self, void*) {
  return PyLong_FromSize_t(of(self).packing.*member);
}
template <PyObject* Answer::* member>
PyObject* part(PyObject* self, void*) {
  return Py_NewRef(of(self).*member);
}

PyGetSetDef getters[] = {
    {"selection", selection, nullptr, nullptr, nullptr},
    {"gains",
     [](PyObject* self, void*) -> PyObject* {
       return guarded([&] { return to_array<double>(of(self).packing.gains).release().ptr(); });
     },
     nullptr, nullptr, nullptr},
    {"objective", number<&Packing::value>, nullptr, nullptr, nullptr},
    {"cost", number<&Packing::cost>, nullptr, nullptr, nullptr},
    {"feasible", [](PyObject* self, void*) -> PyObject* { return PyBool_FromLong(of(self).packing.feasible); }, nullptr,
     nullptr, nullptr},
    {"upper_bound",
     [](PyObject* self, void*) -> PyObject* {
       const Bound& bound = of(self).packing.bound;
       return bounded(bound) ? PyFloat_FromDouble(bound.value) : Py_NewRef(Py_None);
     },
     nullptr, nullptr, nullptr},
    {"bound_method",
     [](PyObject* self, void*) -> PyObject* {
       const Bound& bound = of(self).packing.bound;
       return bounded(bound) ? text(bound_name(bound.method)) : Py_NewRef(Py_None);
     },
     nullptr, nullptr, nullptr},
    {"status", [](PyObject* self, void*) -> PyObject* { return text(status_name(of(self).packing)); }, nullptr, nullptr,
     nullptr},
    {"instruction_set", [](PyObject* self, void*) -> PyObject* { return text(name(of(self).packing.level)); }, nullptr,
     nullptr, nullptr},
    {"gain_evaluations", count<&Packing::gain_evaluations>, nullptr, nullptr, nullptr},
    {"nodes", count<&Packing::nodes>, nullptr, nullptr, nullptr},
    {"search_seconds", number<&Packing::search_seconds>, nullptr, nullptr, nullptr},
    {"certificate_seconds", number<&Packing::certificate_seconds>, nullptr, nullptr, nullptr},
    {"problem", part<&Answer::problem>, nullptr, nullptr, nullptr},
    {"plan", part<&Answer::plan>, nullptr, nullptr, nullptr},
    {"request", part<&Answer::request>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_getset, getters},
    {0, nullptr},
};

PyType_Spec spec = {"isinglass._core.Packing", sizeof(Answer), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

bool bounded(const Bound& bound) { return std::isfinite(bound.value); }

const char* status_name(const Packing& packing) {
  constexpr double kProved = 1e-12;  // relative: bounds carry slack for rounding
  if (packing.proved) return "optimal";
  if (packing.stopped == StopReason::time_limit) return "time_limit";
  if (packing.stopped == StopReason::interrupted) return "interrupted";
  if (!bounded(packing.bound)) return "feasible";
  return packing.bound.value - packing.value <= kProved * packing.bound.value ? "optimal" : "bounded";
}

const char* bound_name(BoundMethod method) {
  switch (method) {
    case BoundMethod::online:
      return "online";
    case BoundMethod::concave:
      return "concave";
    case BoundMethod::total:
      return "total";
    case BoundMethod::exact:
      return "exact";
  }
  return "total";
}

PyObject* make_answer(const AnswerContext& context, Packing&& packing) {
  auto* const kind = reinterpret_cast<PyTypeObject*>(context.kind);
  if (!PyType_Check(context.kind) || !PyType_IsSubtype(kind, answer_type)) {
    PyErr_SetString(PyExc_TypeError, "kind must be a class derived from Packing");
    return nullptr;
  }
  PyObject* const self = kind->tp_alloc(kind, 0);
  if (self == nullptr) return nullptr;
  Answer& answer = of(self);
  new (&answer.packing) Packing(std::move(packing));
  new (&answer.selection) std::atomic<PyObject*>(nullptr);
  answer.problem = Py_NewRef(context.problem);
  answer.plan = Py_NewRef(context.plan);
  answer.request = Py_NewRef(context.request);
  return self;
}

void register_packing_answer(py::module_& m) {
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw py::error_already_set();
  answer_type = reinterpret_cast<PyTypeObject*>(type);  // lives as long as the process, as module and type do
  m.add_object("Packing", py::reinterpret_steal<py::object>(type));
}

}  // namespace isinglass
