// Evidence problems and the answers to many of them, as Python holds them.
#pragma once

#include <memory>
#include <vector>

#include "arrays.hpp"
#include "isinglass/evidence.hpp"

namespace isinglass {

/// An evidence problem together with the NumPy arrays that it views.
struct EvidenceHandle {
  std::vector<py::object> owners;
  std::unique_ptr<EvidenceProblem> problem;
};

/// The answers to many problems.
struct EvidenceBatch {
  std::vector<EvidenceAnswer> answers;

  template <class Get>
  py::array_t<double> column(Get get) const {
    std::vector<double> values;
    values.reserve(answers.size());
    for (const EvidenceAnswer& answer : answers) values.push_back(get(answer));
    return to_array<double>(values);
  }
};

}  // namespace isinglass
