#include <pybind11/pybind11.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "arrays.hpp"
#include "isinglass/fold.hpp"

namespace isinglass {
namespace {

Element element_of(const py::dtype& dtype) {
  constexpr std::array<std::pair<char, std::array<Element, 4>>, 2> integers{
      {{'i', {Element::i8, Element::i16, Element::i32, Element::i64}},
       {'u', {Element::u8, Element::u16, Element::u32, Element::u64}}}};
  const auto size = dtype.itemsize();
  if (dtype.kind() == 'f' && size == 4) return Element::f32;
  if (dtype.kind() == 'f' && size == 8) return Element::f64;
  for (const auto& [kind, elements] : integers) {
    if (dtype.kind() != kind) continue;
    for (std::size_t k = 0; k < elements.size(); ++k) {
      if (size == py::ssize_t{1} << k) return elements[k];
    }
  }
  throw std::invalid_argument("Q must be of a native integer or float type of 8 to 64 bits");
}

}  // namespace

void register_fold(py::module_& m) {
  m.def(
      "fold",
      [](const py::array& Q, Array<double> upper, Array<double> linear) {
        const py::ssize_t n = linear.size();
        if (Q.ndim() != 2 || Q.shape(0) != n || Q.shape(1) != n || upper.size() != n * n || linear.ndim() != 1) {
          throw std::invalid_argument("Q and upper must be of shape (n, n), linear of shape (n,)");
        }
        const auto size = Q.itemsize();
        const auto stride = [&](py::ssize_t axis) { return n > 1 ? Q.strides(axis) / size : 0; };
        if (n > 1 && (Q.strides(0) % size != 0 || Q.strides(1) % size != 0)) {
          throw std::invalid_argument("Q must be aligned");
        }
        const StridedMatrix matrix{Q.data(), stride(0), stride(1), element_of(Q.dtype()), static_cast<std::size_t>(n)};
        double* to_upper = upper.mutable_data();
        double* to_linear = linear.mutable_data();
        Folded folded{};
        {
          py::gil_scoped_release nogil;
          folded = fold(matrix, to_upper, to_linear);
        }
        return std::pair(folded.pairs, folded.plain);
      },
      py::arg("Q"), strict("upper"), strict("linear"));
}

}  // namespace isinglass
