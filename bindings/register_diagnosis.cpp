#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <string_view>
#include <vector>

#include "arrays.hpp"
#include "isinglass/survival.hpp"
#include "strings.hpp"

namespace isinglass {
namespace {

/// Offsets of rows in a flat array: ascending from 0 to `size`, one more than there are rows.
std::span<const std::int64_t> offsets_view(const Array<std::int64_t>& array, const char* name, std::size_t size) {
  const auto offsets = vector_view(array, name);
  bool ascending = !offsets.empty() && offsets.front() == 0 && offsets.back() == static_cast<std::int64_t>(size);
  for (std::size_t i = 1; ascending && i < offsets.size(); ++i) ascending = offsets[i - 1] <= offsets[i];
  if (!ascending) throw std::invalid_argument(std::string(name) + " must ascend from 0 to " + std::to_string(size));
  return offsets;
}

template <class T>
std::span<const T> row(std::span<const T> flat, std::span<const std::int64_t> offsets, std::size_t i) {
  return flat.subspan(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
}

py::array_t<std::uint8_t> find_runs(const Array<std::int32_t>& tokens, const Array<std::int64_t>& snippet_starts,
                                    const Array<std::int64_t>& context_snippets, const Array<std::int32_t>& run_tokens,
                                    const Array<std::int64_t>& run_starts, const Array<std::int64_t>& context_runs) {
  const auto flat = vector_view(tokens, "tokens"), wanted = vector_view(run_tokens, "run_tokens");
  const auto starts = offsets_view(snippet_starts, "snippet_starts", flat.size());
  const auto snippets = offsets_view(context_snippets, "context_snippets", starts.size() - 1);
  const auto runs = offsets_view(run_starts, "run_starts", wanted.size());
  const auto meant = offsets_view(context_runs, "context_runs", runs.size() - 1);
  if (meant.size() != snippets.size()) {
    throw std::invalid_argument("context_runs must have one entry a context: expected " +
                                std::to_string(snippets.size()) + ", got " + std::to_string(meant.size()));
  }
  std::vector<std::uint8_t> standing(runs.size() - 1);
  {
    py::gil_scoped_release nogil;
    std::vector<std::int64_t> ends;
    for (std::size_t c = 0; c + 1 < snippets.size(); ++c) {
      const auto bounds = starts.subspan(static_cast<std::size_t>(snippets[c]),
                                         static_cast<std::size_t>(snippets[c + 1] - snippets[c] + 1));
      ends.clear();
      for (std::int64_t end : bounds.subspan(1)) ends.push_back(end - bounds.front());
      const auto context = flat.subspan(static_cast<std::size_t>(bounds.front()),
                                        static_cast<std::size_t>(bounds.back() - bounds.front()));
      for (std::int64_t r = meant[c]; r < meant[c + 1]; ++r) {
        const auto at = static_cast<std::size_t>(r);
        standing[at] = static_cast<std::uint8_t>(find_run(context, ends, row(wanted, runs, at)));
      }
    }
  }
  return to_array<std::uint8_t>(standing);
}

}  // namespace

void register_diagnosis(py::module_& m) {
  py::class_<TokenNumbers>(m, "TokenNumbers")
      .def(py::init([](bool word_boundaries, const CharacterTable* table) {
             return TokenNumbers(word_boundaries ? Articles::word_boundaries : Articles::words, table);
           }),
           py::arg("word_boundaries"), py::arg("table").none(false), py::keep_alive<1, 3>())
      .def(
          "of",
          [](TokenNumbers& self, const py::list& texts) {
            Strings strings;
            std::vector<std::int32_t> numbers;
            std::vector<std::int64_t> starts{0};
            for (py::handle text : texts) {
              if (PyUnicode_Check(text.ptr())) {
                self.add_text(strings.view(text), numbers);
              } else {
                for (py::handle token : text.cast<py::list>()) self.add_token(strings.view(token), numbers);
              }
              starts.push_back(static_cast<std::int64_t>(numbers.size()));
            }
            return py::make_tuple(to_array<std::int32_t>(numbers), to_array<std::int64_t>(starts));
          },
          py::arg("texts"));
  m.def("find_runs", &find_runs, strict("tokens"), strict("snippet_starts"), strict("context_snippets"),
        strict("run_tokens"), strict("run_starts"), strict("context_runs"));
}

}  // namespace isinglass
