#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "controlled.hpp"
#include "embeddings.hpp"
#include "isinglass/parallel.hpp"
#include "packing.hpp"
#include "packing_handle.hpp"

namespace isinglass {
namespace {

cuda::EmbeddingRows rows_of(const PackingHandle& handle, std::optional<std::uintptr_t> on_device) {
  cuda::EmbeddingRows rows{handle.rows,
                           on_device ? reinterpret_cast<const float*>(*on_device) : nullptr,
                           handle.size(),
                           handle.dimension,
                           {}};
  if (handle.sample) rows.sample = *handle.sample;
  return rows;
}

}  // namespace

void register_cuda_packing(py::module_& m) {
  m.def(
      "pack_many",
      [](const std::vector<const PackingHandle*>& handles, bool plus_max, bool tight, int device, int threads,
         double time_limit, const py::object& progress) {
        return controlled(time_limit, progress, [&](Control& control) {
          std::vector<std::shared_ptr<const PackingProblem>> held(handles.size());
          Control unwatched(kNoLimit);
          parallel_for(handles.size(), threads, unwatched,
                       [&](std::size_t i) { held[i] = handles[i]->problem(nullptr); });
          std::vector<const PackingProblem*> problems;
          for (const auto& problem : held) problems.push_back(problem.get());
          const CertificateLevel level = tight ? CertificateLevel::tight : CertificateLevel::fast;
          return PackingBatch{cuda::pack(
              problems, {.plus_max = plus_max, .certificate = level, .device = device, .threads = threads}, control)};
        });
      },
      py::arg("problems"), py::arg("plus_max"), py::arg("tight"), py::arg("device"), py::arg("threads"),
      py::arg("time_limit"), py::arg("progress"));
  m.def(
      "embed",
      [](const PackingHandle& handle, std::optional<std::uintptr_t> rows, int device, double time_limit,
         const py::object& progress) {
        if (handle.has_embeddings()) return;
        const cuda::EmbeddingRows given = rows_of(handle, rows);
        controlled(time_limit, progress, [&](Control& control) {
          if (auto embeddings = cuda::embed(given, device, control)) handle.adopt(std::move(embeddings));
          return 0;
        });
      },
      py::arg("problem"), py::arg("rows"), py::arg("device"), py::arg("time_limit"), py::arg("progress"));
  m.def(
      "lend",
      [](const PackingHandle& handle, std::optional<std::uintptr_t> rows, int device) {
        const py::gil_scoped_release released;
        handle.lend(cuda::similarities(rows_of(handle, rows), device));
      },
      py::arg("problem"), py::arg("rows"), py::arg("device"));
  m.def(
      "take_back",
      [](const PackingHandle& handle) {
        const py::gil_scoped_release released;
        handle.lend(nullptr);
      },
      py::arg("problem"));
}

}  // namespace isinglass
