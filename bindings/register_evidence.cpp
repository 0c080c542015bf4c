#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "arrays.hpp"
#include "controlled.hpp"
#include "evidence_handle.hpp"
#include "isinglass/parallel.hpp"

namespace isinglass {
namespace {

template <class T>
const T* matrix_view(const Array<T>& array, std::size_t rows, std::size_t columns, const char* expected) {
  if (array.ndim() != 2 || static_cast<std::size_t>(array.shape(0)) != rows ||
      static_cast<std::size_t>(array.shape(1)) != columns) {
    throw std::invalid_argument(expected);
  }
  return array.data();
}

std::unique_ptr<EvidenceHandle> make_problem(const Array<double>& linear, const Array<double>& pairs,
                                             const Array<std::uint8_t>& covers, const Array<double>& term_weights,
                                             std::size_t max_items, const OptionalArray<std::int64_t>& costs,
                                             std::int64_t budget) {
  auto handle = std::make_unique<EvidenceHandle>();
  EvidenceView view;
  view.linear = vector_view(linear, "linear");
  view.n = view.linear.size();
  view.term_weights = vector_view(term_weights, "term_weights");
  view.terms = view.term_weights.size();
  view.pairs = matrix_view(pairs, view.n, view.n, "pairs must be of shape (n, n)");
  view.covers = matrix_view(covers, view.terms, view.n, "covers must be of shape (terms, n)");
  if (max_items > view.n) throw std::invalid_argument("max_items must be at most n");
  view.max_items = max_items;
  view.costs = vector_view(costs, "costs");
  if (costs && view.costs.size() != view.n) throw std::invalid_argument("costs must be of shape (n,)");
  view.budget = budget;
  handle->owners = {linear, pairs, covers, term_weights};
  if (costs) handle->owners.push_back(*costs);
  py::gil_scoped_release nogil;
  handle->problem = std::make_unique<EvidenceProblem>(view);
  return handle;
}

/// Reads and patience (0: by default), node limit (-1: swaps only; 0: no limit), limit of work (0: none).
struct EvidencePlan {
  std::size_t num_reads;
  std::uint32_t patience;
  std::int64_t node_limit;
  std::uint64_t work_limit;
};

EvidenceAnswer search(const EvidenceProblem& problem, const EvidencePlan& plan, std::uint64_t seed, Control& control) {
  const SwapOptions swaps{plan.num_reads, plan.patience, seed};
  if (plan.node_limit < 0) return swap_search(problem, swaps, control);
  return exact_search(problem, {swaps, static_cast<std::uint64_t>(plan.node_limit), plan.work_limit}, control);
}

// Problems that a thread takes at a time: a few hundred microseconds of swaps.
constexpr std::size_t kChunk = 16;

const char* stop_name(StopReason reason) {
  switch (reason) {
    case StopReason::time_limit:
      return "time_limit";
    case StopReason::interrupted:
      return "interrupted";
    case StopReason::none:
      return "none";
  }
  return "none";
}

}  // namespace

void register_evidence(py::module_& m) {
  py::class_<EvidenceHandle>(m, "EvidenceCore")
      .def(py::init(&make_problem), py::kw_only(), strict("linear"), strict("pairs"), strict("covers"),
           strict("term_weights"), py::arg("max_items"), strict("costs"), py::arg("budget"))
      .def_property_readonly("granule", [](const EvidenceHandle& self) { return self.problem->granule(); })
      .def_property_readonly("max_error", [](const EvidenceHandle& self) { return self.problem->max_error(); })
      .def(
          "bound",
          [](const EvidenceHandle& self, double target, std::size_t steps, double time_limit) {
            return controlled(time_limit, py::none(),
                              [&](Control& control) { return dual_bound(*self.problem, target, steps, control); });
          },
          py::arg("target"), py::arg("steps"), py::arg("time_limit"));

  py::class_<EvidenceAnswer>(m, "EvidenceAnswer")
      .def_property_readonly("selection",
                             [](const EvidenceAnswer& self) { return to_array<std::int64_t>(self.selection); })
      .def_readonly("value", &EvidenceAnswer::value)
      .def_property_readonly("upper_bound",
                             [](const EvidenceAnswer& self) -> py::object {
                               if (!self.bounded) return py::none();
                               return py::float_(self.upper_bound);
                             })
      .def_readonly("proved", &EvidenceAnswer::proved)
      .def_readonly("reads", &EvidenceAnswer::reads)
      .def_readonly("patience", &EvidenceAnswer::patience)
      .def_readonly("moves", &EvidenceAnswer::moves)
      .def_readonly("nodes", &EvidenceAnswer::nodes)
      .def_readonly("dual_steps", &EvidenceAnswer::dual_steps)
      .def_readonly("work", &EvidenceAnswer::work)
      .def_property_readonly("stopped", [](const EvidenceAnswer& self) { return stop_name(self.stopped); })
      .def_readonly("search_seconds", &EvidenceAnswer::search_seconds)
      .def_readonly("proof_seconds", &EvidenceAnswer::proof_seconds);

  py::class_<EvidenceBatch>(m, "EvidenceBatch")
      .def("__len__", [](const EvidenceBatch& self) { return self.answers.size(); })
      .def("__getitem__",
           [](const EvidenceBatch& self, std::size_t index) {
             if (index >= self.answers.size()) throw py::index_error();
             return self.answers[index];
           })
      .def_property_readonly("values",
                             [](const EvidenceBatch& self) {
                               return self.column([](const EvidenceAnswer& answer) { return answer.value; });
                             })
      .def_property_readonly("upper_bounds",
                             [](const EvidenceBatch& self) {
                               return self.column([](const EvidenceAnswer& answer) {
                                 return answer.bounded ? answer.upper_bound : std::numeric_limits<double>::quiet_NaN();
                               });
                             })
      .def_property_readonly("offsets",
                             [](const EvidenceBatch& self) {
                               std::vector<std::size_t> offsets{0};
                               for (const EvidenceAnswer& answer : self.answers) {
                                 offsets.push_back(offsets.back() + answer.selection.size());
                               }
                               return to_array<std::int64_t>(offsets);
                             })
      .def_property_readonly("selections", [](const EvidenceBatch& self) {
        std::vector<std::int32_t> selections;
        for (const EvidenceAnswer& answer : self.answers) {
          selections.insert(selections.end(), answer.selection.begin(), answer.selection.end());
        }
        return to_array<std::int64_t>(selections);
      });

  m.def(
      "select_evidence",
      [](const EvidenceHandle& handle, std::size_t num_reads, std::uint32_t patience, std::int64_t node_limit,
         std::uint64_t work_limit, std::uint64_t seed, double time_limit, const py::object& progress) {
        return controlled(time_limit, progress, [&](Control& control) {
          return search(*handle.problem, {num_reads, patience, node_limit, work_limit}, seed, control);
        });
      },
      py::arg("problem"), py::arg("num_reads"), py::arg("patience"), py::arg("node_limit"), py::arg("work_limit"),
      py::arg("seed"), py::arg("time_limit"), py::arg("progress"));
  m.def(
      "select_evidence_many",
      [](const std::vector<const EvidenceHandle*>& handles, std::size_t num_reads, std::uint32_t patience,
         std::int64_t node_limit, std::uint64_t work_limit, const std::vector<std::uint64_t>& seeds, int threads,
         double time_limit, const py::object& progress) {
        if (seeds.size() != handles.size()) throw std::invalid_argument("seeds must have one entry a problem");
        return controlled(time_limit, progress, [&](Control& control) {
          EvidenceBatch batch;
          batch.answers.resize(handles.size());
          std::atomic<std::size_t> done{0};
          const std::size_t chunks = (handles.size() + kChunk - 1) / kChunk;
          parallel_for(chunks, threads, control, [&](std::size_t chunk) {
            const std::size_t end = std::min(handles.size(), (chunk + 1) * kChunk);
            for (std::size_t i = chunk * kChunk; i < end; ++i) {
              batch.answers[i] =
                  search(*handles[i]->problem, {num_reads, patience, node_limit, work_limit}, seeds[i], control);
            }
            done += end - chunk * kChunk;
            control.report(static_cast<double>(done) / static_cast<double>(handles.size()));
          });
          // What had not begun when the call was stopped says so.
          for (EvidenceAnswer& answer : batch.answers) {
            if (answer.patience == 0) answer.stopped = control.reason();
          }
          return batch;
        });
      },
      py::arg("problems"), py::arg("num_reads"), py::arg("patience"), py::arg("node_limit"), py::arg("work_limit"),
      py::arg("seeds"), py::arg("threads"), py::arg("time_limit"), py::arg("progress"));
}

}  // namespace isinglass
