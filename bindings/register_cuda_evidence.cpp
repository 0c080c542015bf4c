#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <vector>

#include "controlled.hpp"
#include "evidence.hpp"
#include "evidence_handle.hpp"

namespace isinglass {

void register_cuda_evidence(py::module_& m) {
  m.def(
      "select_evidence_many",
      [](const std::vector<const EvidenceHandle*>& handles, std::size_t num_reads, std::uint32_t patience,
         const std::vector<std::uint64_t>& seeds, int device, int threads, double time_limit,
         const py::object& progress) {
        if (seeds.size() != handles.size()) throw std::invalid_argument("seeds must have one entry a problem");
        std::vector<const EvidenceProblem*> problems;
        for (const EvidenceHandle* handle : handles) problems.push_back(handle->problem.get());
        return controlled(time_limit, progress, [&](Control& control) {
          return EvidenceBatch{cuda::swap_search(
              problems, seeds, {.num_reads = num_reads, .patience = patience, .device = device, .threads = threads},
              control)};
        });
      },
      py::arg("problems"), py::arg("num_reads"), py::arg("patience"), py::arg("seeds"), py::arg("device"),
      py::arg("threads"), py::arg("time_limit"), py::arg("progress"));
}

}  // namespace isinglass
