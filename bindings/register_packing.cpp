#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "controlled.hpp"
#include "isinglass/packing_exact.hpp"
#include "isinglass/parallel.hpp"
#include "isinglass/sharded.hpp"
#include "isinglass/stochastic.hpp"
#include "packing_answer.hpp"
#include "packing_handle.hpp"

namespace isinglass {
namespace {

template <class T>
CsrView<T> csr_view(const OptionalArray<std::int64_t>& row_start, const OptionalArray<std::int32_t>& column,
                    const OptionalArray<T>& value, const char* name) {
  return {vector_view(row_start, name), vector_view(column, name), vector_view(value, name)};
}

std::unique_ptr<PackingHandle> make_problem(
    const Array<double>& costs, double budget, const OptionalArray<std::int64_t>& integer_costs,
    std::int64_t integer_budget, const OptionalArray<double>& relevance, const OptionalArray<float>& similarity,
    const OptionalArray<std::int64_t>& similarity_rows, const OptionalArray<std::int32_t>& similarity_columns,
    const OptionalArray<float>& similarity_values, const OptionalArray<float>& embeddings,
    std::optional<std::size_t> device_dimension, const OptionalArray<std::int32_t>& represented, bool store_similarity,
    const OptionalArray<std::int64_t>& coverage_rows, const OptionalArray<std::int32_t>& coverage_terms,
    const OptionalArray<double>& term_weights, const OptionalArray<std::int32_t>& groups, std::size_t num_groups,
    const OptionalArray<std::uint8_t>& allowed, const OptionalArray<std::int32_t>& pinned, std::size_t max_items,
    double relevance_weight, double coverage_weight, double representation_weight, double diversity_weight,
    double facility_location_weight, double saturation, bool unit_normalisation, const py::sequence& terms,
    int threads) {
  auto handle = std::make_unique<PackingHandle>();
  PackingView& view = handle->view;
  view.costs = vector_view(costs, "costs");
  view.n = view.costs.size();
  view.budget = budget;
  view.integer_costs = vector_view(integer_costs, "integer_costs");
  view.integer_budget = integer_budget;
  view.relevance = vector_view(relevance, "relevance");
  if (similarity) {
    if (similarity->ndim() != 2 || static_cast<std::size_t>(similarity->shape(0)) != view.n ||
        static_cast<std::size_t>(similarity->shape(1)) != view.n) {
      throw std::invalid_argument("similarity must be of shape (n, n)");
    }
    view.similarity = similarity->data();
  }
  view.sparse_similarity = csr_view(similarity_rows, similarity_columns, similarity_values, "similarity");
  view.coverage = csr_view<double>(coverage_rows, coverage_terms, std::nullopt, "coverage");
  view.term_weights = vector_view(term_weights, "coverage_weights");
  view.groups = vector_view(groups, "groups");
  view.num_groups = num_groups;
  view.allowed = vector_view(allowed, "allowed");
  view.pinned = vector_view(pinned, "pinned");
  view.max_items = max_items;
  view.relevance_weight = relevance_weight;
  view.coverage_weight = coverage_weight;
  view.representation_weight = representation_weight;
  view.diversity_weight = diversity_weight;
  view.facility_location_weight = facility_location_weight;
  view.saturation = saturation;
  view.unit_normalisation = unit_normalisation;
  for (py::handle given : terms) {
    const auto address = given.attr("address").cast<std::uintptr_t>(),
               data = given.attr("data_address").cast<std::uintptr_t>();
    handle->terms.push_back({reinterpret_cast<UserTerm::Gain>(address), reinterpret_cast<const void*>(data),
                             given.attr("weight").cast<double>(), given.attr("submodular").cast<bool>(),
                             given.attr("monotone").cast<bool>()});
  }
  view.terms = handle->terms;
  handle->owners.push_back(terms);  // they keep the functions and their data alive

  const auto keep = [&](const auto& array) {
    if (array) handle->owners.push_back(*array);
  };
  handle->owners.push_back(costs);
  keep(integer_costs);
  keep(relevance);
  keep(similarity);
  keep(similarity_rows);
  keep(similarity_columns);
  keep(similarity_values);
  keep(coverage_rows);
  keep(coverage_terms);
  keep(term_weights);
  keep(groups);
  keep(allowed);
  keep(pinned);
  handle->threads = threads;
  if (embeddings) {
    if (embeddings->ndim() != 2 || static_cast<std::size_t>(embeddings->shape(0)) != view.n) {
      throw std::invalid_argument("embeddings must be of shape (n, d)");
    }
    keep(embeddings);
    handle->rows = embeddings->data();
    handle->dimension = static_cast<std::size_t>(embeddings->shape(1));
  }
  if (device_dimension) handle->dimension = *device_dimension;
  if (embeddings || device_dimension) {
    handle->embedded = true;
    handle->stores_similarity = store_similarity;
    if (represented) {
      keep(represented);
      handle->sample = vector_view(represented, "represented");
      view.targets = handle->sample->size();
    }
  }
  if (handle->is_small()) handle->problem(nullptr);
  return handle;
}

/// use(problem) under a control that hears Ctrl-C.
template <class Use>
auto with_problem(const PackingHandle& handle, double time_limit, const py::object& progress, Use use) {
  return controlled(time_limit, progress, [&](Control& control) { return use(*handle.problem(&control), control); });
}

py::object answer(const AnswerContext& context, Packing&& packing) {
  PyObject* const made = make_answer(context, std::move(packing));
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

CertificateLevel level_of(bool tight) { return tight ? CertificateLevel::tight : CertificateLevel::fast; }

std::vector<Item> checked_selection(const PackingHandle& handle, const Array<std::int64_t>& selection) {
  std::vector<Item> items;
  for (std::int64_t item : vector_view(selection, "selection")) {
    if (item < 0 || static_cast<std::size_t>(item) >= handle.size()) {
      throw std::out_of_range("selection holds " + std::to_string(item) + ", expected an index below " +
                              std::to_string(handle.size()));
    }
    items.push_back(static_cast<Item>(item));
  }
  return items;
}

/// pack(kind, problem, plan, request, core, plus_max, tight, time_limit, progress, high_effort, threads) -> kind.
/// By Python's own calling convention: a pack of twenty passages takes a few times as long as this call, and no longer
/// than one through pybind11's dispatcher.
PyObject* pack(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  constexpr Py_ssize_t kArguments = 11;
  if (count != kArguments) {
    PyErr_Format(PyExc_TypeError, "pack takes %zd arguments, got %zd", kArguments, count);
    return nullptr;
  }
  try {
    const auto flag = [&](int k) {
      if (!PyBool_Check(arguments[k])) throw py::type_error("plus_max, tight and high_effort must be bool");
      return arguments[k] == Py_True;
    };
    const auto& handle = py::handle(arguments[4]).cast<const PackingHandle&>();
    const GreedyOptions options{
        .plus_max = flag(5), .high_effort = flag(9), .threads = static_cast<int>(PyLong_AsLong(arguments[10]))};
    const CertificateLevel certificate = level_of(flag(6));
    const double time_limit = PyFloat_AsDouble(arguments[7]);
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    Packing packing = with_problem(handle, time_limit, py::reinterpret_borrow<py::object>(arguments[8]),
                                   [&](const PackingProblem& problem, Control& control) {
                                     return greedy(problem, options, certificate, control);
                                   });
    return make_answer({arguments[0], arguments[1], arguments[2], arguments[3]}, std::move(packing));
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::domain_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyMethodDef fast_functions[] = {
    {"pack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(pack)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void register_packing(py::module_& m) {
  py::class_<PackingHandle>(m, "PackingCore")
      .def(py::init(&make_problem), py::kw_only(), strict("costs"), py::arg("budget"), strict("integer_costs"),
           py::arg("integer_budget"), strict("relevance"), strict("similarity"), strict("similarity_rows"),
           strict("similarity_columns"), strict("similarity_values"), strict("embeddings"), py::arg("device_dimension"),
           strict("represented"), py::arg("store_similarity"), strict("coverage_rows"), strict("coverage_terms"),
           strict("term_weights"), strict("groups"), py::arg("num_groups"), strict("allowed"), strict("pinned"),
           py::arg("max_items"), py::arg("relevance_weight"), py::arg("coverage_weight"),
           py::arg("representation_weight"), py::arg("diversity_weight"), py::arg("facility_location_weight"),
           py::arg("saturation"), py::arg("unit_normalisation"), py::arg("terms"), py::arg("threads"))
      .def_property_readonly("eligible",
                             [](const PackingHandle& self) {
                               const std::vector<std::uint8_t> eligible = with_problem(
                                   self, kNoLimit, py::none(), [](const PackingProblem& problem, Control&) {
                                     const auto all = problem.eligible();
                                     return std::vector<std::uint8_t>(all.begin(), all.end());
                                   });
                               return to_array<bool>(eligible);
                             })
      .def(
          "evaluate",
          [](const PackingHandle& self, const Array<std::int64_t>& selection) {
            const std::vector<Item> items = checked_selection(self, selection);
            return with_problem(self, kNoLimit, py::none(),
                                [&](const PackingProblem& problem, Control&) { return evaluate(problem, items); });
          },
          strict("selection"))
      .def(
          "spending",
          [](const PackingHandle& self, const Array<std::int64_t>& selection) {
            const Spending s = spending(self.view, checked_selection(self, selection));
            return py::make_tuple(s.cost, s.within_budget);
          },
          strict("selection"))
      .def(
          "gain",
          [](const PackingHandle& self, const Array<std::int64_t>& selection, std::int64_t item) {
            const std::vector<Item> items = checked_selection(self, selection);
            return with_problem(self, kNoLimit, py::none(), [&](const PackingProblem& problem, Control&) {
              PackingState state;
              state.reset(problem);
              for (Item chosen : items) state.add(chosen);
              return state.gain(static_cast<Item>(item));
            });
          },
          strict("selection"), py::arg("item"))
      .def(
          "bound",
          [](const PackingHandle& self, const Array<std::int64_t>& selection, bool tight, double time_limit) {
            const std::vector<Item> items = checked_selection(self, selection);
            const auto [value, bound] =
                with_problem(self, time_limit, py::none(), [&](const PackingProblem& problem, Control& control) {
                  return std::pair(evaluate(problem, items),
                                   bound_at(problem, items, level_of(tight), control, self.threads));
                });
            if (!bounded(bound)) return py::tuple(py::make_tuple(value, py::none(), py::none()));
            return py::tuple(py::make_tuple(value, bound.value, bound_name(bound.method)));
          },
          strict("selection"), py::arg("tight"), py::arg("time_limit"));

  register_packing_answer(m);

  py::class_<PackingBatch>(m, "PackingBatch")
      .def("__len__", [](const PackingBatch& self) { return self.packings.size(); })
      .def(
          "answer",
          [](const PackingBatch& self, std::size_t index, py::handle kind, py::handle problem, py::handle plan,
             py::handle request) {
            return answer({kind.ptr(), problem.ptr(), plan.ptr(), request.ptr()}, Packing(self.packings.at(index)));
          },
          py::arg("index"), py::arg("kind"), py::arg("problem"), py::arg("plan"), py::arg("request"))
      .def_property_readonly(
          "values",
          [](const PackingBatch& self) { return self.column<double>([](const Packing& p) { return p.value; }); })
      .def_property_readonly(
          "costs",
          [](const PackingBatch& self) { return self.column<double>([](const Packing& p) { return p.cost; }); })
      .def_property_readonly("upper_bounds",
                             [](const PackingBatch& self) {
                               return self.column<double>([](const Packing& p) {
                                 return bounded(p.bound) ? p.bound.value : std::numeric_limits<double>::quiet_NaN();
                               });
                             })
      .def_property_readonly("statuses",
                             [](const PackingBatch& self) {
                               py::list names;
                               for (const Packing& packing : self.packings) names.append(status_name(packing));
                               return names;
                             })
      .def_property_readonly(
          "offsets",
          [](const PackingBatch& self) {
            std::vector<std::int64_t> offsets{0};
            for (const Packing& packing : self.packings) {
              offsets.push_back(offsets.back() + static_cast<std::int64_t>(packing.selection.size()));
            }
            return to_array<std::int64_t>(offsets);
          })
      .def_property_readonly("selections", [](const PackingBatch& self) {
        return self.joined<std::int64_t>([](const Packing& p) -> const std::vector<Item>& { return p.selection; });
      });

  if (PyModule_AddFunctions(m.ptr(), fast_functions) != 0) throw py::error_already_set();
  m.def(
      "pack_many",
      [](const std::vector<const PackingHandle*>& handles, bool plus_max, bool tight, double time_limit, int threads,
         const py::object& progress, bool high_effort) {
        const GreedyOptions options{.plus_max = plus_max, .high_effort = high_effort};
        return controlled(time_limit, progress, [&](Control& control) {
          PackingBatch batch;
          batch.packings.resize(handles.size());
          std::atomic<std::size_t> done{0};
          std::vector<std::uint8_t> begun(handles.size(), 0);
          const auto solve = [&](std::size_t i) {
            begun[i] = 1;
            batch.packings[i] = greedy(*handles[i]->problem(&control), options, level_of(tight), control);
          };
          // Some at a time: a query takes a few looks at the clock, and neighbours share cache lines of the answers.
          constexpr std::size_t kTogether = 8;
          const std::size_t count = handles.size();
          parallel_for((count + kTogether - 1) / kTogether, threads, control, [&](std::size_t part) {
            const std::size_t end = std::min(count, (part + 1) * kTogether);
            for (std::size_t i = part * kTogether; i < end && control.reason() == StopReason::none; ++i) solve(i);
            control.report(static_cast<double>(done += end - part * kTogether) / static_cast<double>(count));
          });
          // What the clock left out gets the answer of a run without time: what is pinned, and a bound.
          for (std::size_t i = 0; i < handles.size(); ++i) {
            if (!begun[i] && control.reason() == StopReason::time_limit) solve(i);
          }
          return batch;
        });
      },
      py::arg("problems"), py::arg("plus_max"), py::arg("tight"), py::arg("time_limit"), py::arg("threads"),
      py::arg("progress"), py::arg("high_effort"));
  m.def(
      "pack_exactly",
      [](py::handle kind, py::handle problem, py::handle plan, py::handle request, const PackingHandle& handle,
         std::size_t node_limit, double time_limit, int threads, const py::object& progress) {
        return answer({kind.ptr(), problem.ptr(), plan.ptr(), request.ptr()},
                      with_problem(handle, time_limit, progress, [&](const PackingProblem& made, Control& control) {
                        return branch_and_bound(made, {.node_limit = node_limit, .threads = threads}, control);
                      }));
      },
      py::arg("kind"), py::arg("problem"), py::arg("plan"), py::arg("request"), py::arg("core"), py::arg("node_limit"),
      py::arg("time_limit"), py::arg("threads"), py::arg("progress"));
  m.def(
      "pack_samples",
      [](py::handle kind, py::handle problem, py::handle plan, py::handle request, const PackingHandle& handle,
         double epsilon, std::uint64_t seed, bool tight, double time_limit, const py::object& progress) {
        return answer({kind.ptr(), problem.ptr(), plan.ptr(), request.ptr()},
                      with_problem(handle, time_limit, progress, [&](const PackingProblem& made, Control& control) {
                        return stochastic_greedy(made, {.epsilon = epsilon, .seed = seed}, level_of(tight), control);
                      }));
      },
      py::arg("kind"), py::arg("problem"), py::arg("plan"), py::arg("request"), py::arg("core"), py::arg("epsilon"),
      py::arg("seed"), py::arg("tight"), py::arg("time_limit"), py::arg("progress"));
  m.def(
      "pack_shards",
      [](py::handle kind, py::handle problem, py::handle plan, py::handle request, const PackingHandle& handle,
         std::size_t shards, std::uint64_t seed, int threads, bool tight, double time_limit,
         const py::object& progress) {
        const ShardOptions options{.shards = shards, .seed = seed, .threads = threads};
        return answer({kind.ptr(), problem.ptr(), plan.ptr(), request.ptr()},
                      with_problem(handle, time_limit, progress, [&](const PackingProblem& made, Control& control) {
                        return sharded(made, options, level_of(tight), control);
                      }));
      },
      py::arg("kind"), py::arg("problem"), py::arg("plan"), py::arg("request"), py::arg("core"), py::arg("shards"),
      py::arg("seed"), py::arg("threads"), py::arg("tight"), py::arg("time_limit"), py::arg("progress"));
  m.def(
      "first_unmirrored",
      [](const Array<std::int64_t>& row_start, const Array<std::int32_t>& column, const Array<float>& value,
         double tolerance) {
        const CsrView<float> matrix{vector_view(row_start, "row_start"), vector_view(column, "column"),
                                    vector_view(value, "value")};
        py::gil_scoped_release nogil;
        return first_unmirrored(matrix, tolerance);
      },
      strict("row_start"), strict("column"), strict("value"), py::arg("tolerance"));
  m.def(
      "cosines",
      [](const Array<float>& rows, const Array<float>& others, int threads) {
        const auto side = [](const Array<float>& a, int axis) { return static_cast<std::size_t>(a.shape(axis)); };
        if (rows.ndim() != 2 || others.ndim() != 2 || rows.shape(1) != others.shape(1)) {
          throw std::invalid_argument("rows and others must be 2-D, with as many columns");
        }
        py::array_t<float> out({side(rows, 0), side(others, 0)});
        controlled(kNoLimit, py::none(), [&](Control& control) {
          Embeddings(others.data(), side(others, 0), side(others, 1))
              .of_rows(rows.data(), side(rows, 0), out.mutable_data(), threads, control);
          return 0;
        });
        return out;
      },
      strict("rows"), strict("others"), py::arg("threads"));
  m.def("bytes_of_sample_sums", &Embeddings::bytes_of_sample_sums, py::arg("n"), py::arg("columns"));
  m.def(
      "cosine_similarity",
      [](const Array<float>& embeddings, int threads) {
        if (embeddings.ndim() != 2) throw std::invalid_argument("embeddings must be 2-D");
        const auto n = static_cast<std::size_t>(embeddings.shape(0)), d = static_cast<std::size_t>(embeddings.shape(1));
        py::array_t<float> similarity({n, n});
        float* out = similarity.mutable_data();
        controlled(kNoLimit, py::none(), [&](Control& control) {
          Embeddings(embeddings.data(), n, d).matrix(out, threads, control);
          return 0;
        });
        return similarity;
      },
      strict("embeddings"), py::arg("threads"));
}

}  // namespace isinglass
