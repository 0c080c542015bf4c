#include "isinglass/qubo.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace isinglass {
namespace {

constexpr double kRoundedField = 1 << 30;             // what a scale that rounds aims at: room for the rounding itself
constexpr double kExactInteger = 9007199254740992.0;  // 2^53
constexpr std::size_t kRowAlignment = 64;             // entries: a multiple of every block width

void check_here(const QuboView& view) {
  if (view.dense == nullptr && view.row_start.empty() && view.n > 0) {
    throw std::logic_error("the couplings of the model lie on a device");
  }
}

template <class Visit>
void visit_couplings(const QuboView& view, Visit visit) {
  if (view.dense != nullptr) {
    for (std::size_t i = 0; i < view.n; ++i) {
      const double* row = view.dense + i * view.n;
      for (std::size_t j = i + 1; j < view.n; ++j) {
        if (row[j] != 0) visit(i, j, row[j]);
      }
    }
    return;
  }
  check_here(view);
  for (std::size_t i = 0; i < view.n; ++i) {
    for (std::int64_t k = view.row_start[i]; k < view.row_start[i + 1]; ++k) {
      const auto j = static_cast<std::size_t>(view.neighbour[k]);
      if (j > i && view.coupling[k] != 0) visit(i, j, view.coupling[k]);
    }
  }
}

/// Greatest common divisor of doubles, which are all multiples of powers of two; 0 when it needs more than 53 bits to
/// write one of them as a multiple of it.
class Granule {
 public:
  void add(double w) {
    if (failed_ || w == 0) return;
    w = std::fabs(w);
    if (value_ == 0) {
      value_ = w;
      return;
    }
    // fmod is exact, so this is Euclid's algorithm without rounding.
    double a = std::max(value_, w), b = std::min(value_, w);
    if (a / b >= kExactInteger) {
      failed_ = true;
      return;
    }
    while (b != 0) {
      const double rest = std::fmod(a, b);
      a = b;
      b = rest;
    }
    value_ = a;
    if (w / value_ >= kExactInteger) failed_ = true;
  }
  bool failed() const { return failed_; }
  double value() const { return failed_ ? 0 : value_; }

 private:
  double value_ = 0;
  bool failed_ = false;
};

/// A quarter of the arithmetic for the usual model: small whole numbers.
bool all_integers(const QuboView& view) {
  constexpr double kSmall = 1 << 30;
  bool whole = true;
  const auto check = [&](const double* values, std::size_t count) {
    bool ok = true;
    for (std::size_t k = 0; k < count; ++k) {
      const double w = values[k];
      ok &=
          std::fabs(w) <= kSmall && static_cast<double>(static_cast<std::int32_t>(std::fabs(w) <= kSmall ? w : 0)) == w;
    }
    whole &= ok;
  };
  check(view.linear.data(), view.n);
  if (view.dense != nullptr) {
    for (std::size_t i = 0; whole && i < view.n; ++i) check(view.dense + i * view.n + i, view.n - i);
  } else if (whole) {
    check(view.coupling.data(), view.coupling.size());
  }
  return whole;
}

double granule_of(const QuboView& view) {
  if (all_integers(view)) {
    std::int64_t divisor = 0;
    const auto add = [&](double w) {
      if (divisor != 1) divisor = std::gcd(divisor, static_cast<std::int64_t>(w));
    };
    for (double w : view.linear) add(w);
    if (divisor != 1) visit_couplings(view, [&](std::size_t, std::size_t, double w) { add(w); });
    return static_cast<double>(divisor == 0 ? 1 : divisor);
  }
  Granule granule;
  for (double w : view.linear) granule.add(w);
  if (!granule.failed()) visit_couplings(view, [&](std::size_t, std::size_t, double w) { granule.add(w); });
  return granule.value();
}

/// Denominator of the first convergent of the continued fraction of w > 0 that is within one unit in its last place, or
/// 0 where it or its numerator would need more than 53 bits. By Euclid's algorithm on w as a ratio of whole numbers.
double simplest_denominator(double w) {
  using Whole = unsigned __int128;
  int exponent = 0;
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(std::frexp(w, &exponent), 53));
  const int shift = 53 - exponent;
  if (shift < 0 || shift > 126) return 0;
  Whole a = mantissa, b = Whole{1} << shift;
  const double tolerance = std::nextafter(w, std::numeric_limits<double>::infinity()) - w;
  double p0 = 0, q0 = 1, p1 = 1, q1 = 0;
  while (b != 0) {
    const double whole = static_cast<double>(a / b), p = whole * p1 + p0, q = whole * q1 + q0;
    if (p >= kExactInteger || q >= kExactInteger) return 0;
    if (std::fabs(w - p / q) <= tolerance) return q;
    p0 = std::exchange(p1, p);
    q0 = std::exchange(q1, q);
    a = std::exchange(b, a % b);
  }
  return 0;
}

/// For fractions that no double states, such as 0.1: the smallest scale at which every coefficient is an integer to two
/// units in the last place, or 0. A model of arbitrary numbers fails at its second one.
double rational_scale(const QuboView& view) {
  std::int64_t denominator = 1, divisor = 0;
  bool failed = false;
  const auto add = [&](double w) {
    w = std::fabs(w);
    if (failed || w == 0) return;
    const double tolerance = 2 * (std::nextafter(w, std::numeric_limits<double>::infinity()) - w);
    const auto is_multiple = [&] {
      const double d = static_cast<double>(denominator), k = std::nearbyint(w * d);
      return k > 0 && std::fabs(w - k / d) <= tolerance;
    };
    if (is_multiple()) return;
    const double other = simplest_denominator(w);
    failed = other == 0;
    if (failed) return;
    const auto factor = static_cast<std::int64_t>(other) / std::gcd(denominator, static_cast<std::int64_t>(other));
    const double common = static_cast<double>(denominator) * static_cast<double>(factor);
    failed = common >= kExactInteger || common * w > kLargestField;
    if (failed) return;
    denominator *= factor;
    failed = !is_multiple();
  };
  const auto divide = [&](double w) {
    const double k = std::nearbyint(std::fabs(w) * static_cast<double>(denominator));
    failed = failed || k > kLargestField;
    if (!failed) divisor = std::gcd(divisor, static_cast<std::int64_t>(k));
  };
  const auto for_all = [&](auto visit) {
    for (double w : view.linear) visit(w);
    if (!failed) visit_couplings(view, [&](std::size_t, std::size_t, double w) { visit(w); });
  };
  for_all(add);
  if (!failed) for_all(divide);
  return failed || divisor == 0 ? 0 : static_cast<double>(denominator) / static_cast<double>(divisor);
}

/// Largest |a_i + sum_j w_ij x_j| over all i and x, and largest |w_ij|.
double largest_field(const QuboView& view) {
  std::vector<double> high(view.linear.begin(), view.linear.end()), low(high);
  double largest = 0;
  visit_couplings(view, [&](std::size_t i, std::size_t j, double w) {
    (w > 0 ? high : low)[i] += w;
    (w > 0 ? high : low)[j] += w;
    largest = std::max(largest, std::fabs(w));
  });
  for (std::size_t i = 0; i < view.n; ++i) largest = std::max({largest, high[i], -low[i]});
  return largest;
}

[[noreturn]] void refuse_scale(double scale, double largest) {
  throw std::overflow_error("scale must keep every field within 2^31 - 128, got " + std::to_string(scale) +
                            " with a field of " + std::to_string(largest));
}

}  // namespace

void energies(const QuboView& view, const std::uint8_t* states, std::size_t reads, double* out) {
  check_here(view);
  std::vector<std::size_t> ones;
  for (std::size_t r = 0; r < reads; ++r) {
    const std::uint8_t* x = states + r * view.n;
    double total = 0;
    if (view.dense != nullptr) {
      ones.clear();
      for (std::size_t i = 0; i < view.n; ++i) {
        if (x[i]) ones.push_back(i);
      }
      for (std::size_t k = 0; k < ones.size(); ++k) {
        const double* row = view.dense + ones[k] * view.n;
        double sum = view.linear[ones[k]];
        for (std::size_t l = k + 1; l < ones.size(); ++l) sum += row[ones[l]];
        total += sum;
      }
    } else {
      for (std::size_t i = 0; i < view.n; ++i) {
        if (!x[i]) continue;
        double sum = view.linear[i];
        for (std::int64_t k = view.row_start[i]; k < view.row_start[i + 1]; ++k) {
          const auto j = static_cast<std::size_t>(view.neighbour[k]);
          if (j > i && x[j]) sum += view.coupling[k];
        }
        total += sum;
      }
    }
    out[r] = total + view.offset;
  }
}

Qubo::Qubo(const QuboView& view, std::optional<double> scale) : view_(view) {
  const double largest = largest_field(view);
  if (!std::isfinite(largest)) {
    throw std::overflow_error("the coefficients of each variable must have a finite sum, got one beyond float64");
  }
  const double granule = granule_of(view);
  bool multiples = false;  // of the granule: then nothing is rounded at all
  if (scale) {
    scale_ = *scale;
    exact_ = multiples = granule > 0 && std::fmod(granule * scale_, 1.0) == 0;
  } else if (granule > 0 && largest / granule <= kLargestField && std::isfinite(1 / granule)) {
    scale_ = 1 / granule;
    exact_ = multiples = true;
  } else if (const double rational = rational_scale(view); rational > 0 && largest * rational <= kLargestField) {
    scale_ = rational;
    exact_ = true;
  } else if (largest > 0) {
    scale_ = kRoundedField / largest;
    // A model of subnormal numbers has no scale in range: it is searched as if it were zero, within max_error.
    if (!std::isfinite(scale_)) scale_ = std::numeric_limits<double>::max();
  }
  if (!(largest * scale_ <= 2 * kLargestField)) refuse_scale(scale_, largest);  // integer() would overflow
  measure(multiples);
  if (static_cast<double>(worst_field_) > kLargestField) refuse_scale(scale_, largest);
}

Qubo::Qubo(Parts parts)
    : view_(parts.view),
      scale_(parts.scale),
      exact_(true),
      worst_field_(parts.worst_field),
      largest_coupling_(parts.largest_coupling),
      num_couplings_(parts.num_couplings),
      linear_(std::move(parts.linear)),
      square_sums_(std::move(parts.square_sums)),
      elsewhere_(std::move(parts.couplings)) {
  count_lone_biases();
}

std::int64_t Qubo::integer(double w) const { return static_cast<std::int64_t>(std::nearbyint(w * scale_)); }

template <class Visit>
void Qubo::for_couplings(Visit visit) const {
  visit_couplings(view_, [&](std::size_t i, std::size_t j, double w) {
    if (const auto q = static_cast<std::int32_t>(integer(w)); q != 0) visit(i, j, q);
  });
}

void Qubo::measure(bool multiples) {
  const std::size_t n = view_.n;
  linear_.resize(n);
  square_sums_.assign(n, 0);
  std::vector<std::int64_t> high(n), low(n);
  double most_up = 0, most_down = 0;
  const auto count_error = [&](double w, std::int64_t q) {
    const double error = multiples ? 0 : w - static_cast<double>(q) / scale_;
    (error > 0 ? most_up : most_down) += error;
  };
  for (std::size_t i = 0; i < n; ++i) {
    high[i] = low[i] = integer(view_.linear[i]);
    linear_[i] = static_cast<std::int32_t>(high[i]);
    count_error(view_.linear[i], high[i]);
  }
  visit_couplings(view_, [&](std::size_t i, std::size_t j, double w) {
    const std::int64_t q = integer(w);
    count_error(w, q);
    if (q == 0) return;
    ++num_couplings_;
    (q > 0 ? high : low)[i] += q;
    (q > 0 ? high : low)[j] += q;
    largest_coupling_ = std::max(largest_coupling_, std::abs(q));
    const double square = static_cast<double>(q) * static_cast<double>(q);
    square_sums_[i] += square;
    square_sums_[j] += square;
  });
  worst_field_ = largest_coupling_;
  for (std::size_t i = 0; i < n; ++i) {
    worst_field_ = std::max({worst_field_, high[i], -low[i]});
  }
  count_lone_biases();
  max_error_ = std::max(most_up, -most_down);
}

void Qubo::count_lone_biases() {
  for (std::size_t i = 0; i < view_.n; ++i) {
    if (square_sums_[i] == 0) square_sums_[i] = static_cast<double>(linear_[i]) * static_cast<double>(linear_[i]);
  }
}

double Qubo::density() const {
  const double n = static_cast<double>(view_.n);
  return view_.n < 2 ? 0 : 2 * static_cast<double>(num_couplings_) / (n * (n - 1));
}

double Qubo::typical_cost(double share) const {
  std::vector<double> squares;
  for (double square : square_sums_) {
    if (square > 0) squares.push_back(square);
  }
  if (squares.empty()) return 0;
  const auto rank = static_cast<std::ptrdiff_t>(share * static_cast<double>(squares.size() - 1));
  std::nth_element(squares.begin(), squares.begin() + rank, squares.end());
  return std::sqrt(squares[static_cast<std::size_t>(rank)]);
}

const SparseRows& Qubo::sparse_rows() const {
  std::call_once(sparse_once_, [this] {
    const std::size_t n = view_.n;
    std::vector<std::int64_t> start(n + 1);
    for_couplings([&](std::size_t i, std::size_t j, std::int32_t) {
      ++start[i + 1];
      ++start[j + 1];
    });
    std::partial_sum(start.begin(), start.end(), start.begin());
    std::vector<Coupling> entries(2 * num_couplings_);
    // Pairs come by ascending i, then j: below the diagonal first, so each row fills in ascending order if its lower
    // part, written as j's row, is complete before its own turn, which it is.
    std::vector<std::int64_t> next(start.begin(), start.end() - 1);
    for_couplings([&](std::size_t i, std::size_t j, std::int32_t w) {
      entries[static_cast<std::size_t>(next[i]++)] = {static_cast<std::int32_t>(j), w};
      entries[static_cast<std::size_t>(next[j]++)] = {static_cast<std::int32_t>(i), w};
    });
    sparse_ = {std::move(start), std::move(entries)};
  });
  return sparse_;
}

const std::vector<LaneCoupling>& Qubo::lane_couplings(std::size_t bytes) const {
  const auto slot = static_cast<std::size_t>(std::countr_zero(bytes));
  std::call_once(lanes_once_.at(slot), [&] {
    if (view_.n > std::numeric_limits<std::uint32_t>::max() / bytes) {
      throw std::length_error("lanes hold fewer than 2^26 variables, got " + std::to_string(view_.n));
    }
    std::vector<LaneCoupling> entries;
    entries.reserve(sparse_rows().entries.size());
    for (const Coupling& c : sparse_rows().entries) {
      entries.push_back({static_cast<std::uint32_t>(static_cast<std::size_t>(c.neighbour) * bytes), c.weight});
    }
    lanes_[slot] = std::move(entries);
  });
  return lanes_[slot];
}

template <class T>
const DenseRows<T>& Qubo::make_rows(DenseRows<T>& rows) const {
  if (largest_coupling_ > std::numeric_limits<T>::max()) {
    throw std::overflow_error("couplings up to " + std::to_string(largest_coupling_) + " do not fit rows of " +
                              std::to_string(8 * sizeof(T)) + " bits");
  }
  rows.stride = (view_.n + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  rows.values.assign(rows.stride * view_.n, 0);
  for_couplings([&](std::size_t i, std::size_t j, std::int32_t w) {
    rows.values[i * rows.stride + j] = static_cast<T>(w);
    rows.values[j * rows.stride + i] = static_cast<T>(w);
  });
  return rows;
}

const DenseRows<std::int8_t>& Qubo::rows8() const {
  std::call_once(rows8_once_, [this] { make_rows(rows8_); });
  return rows8_;
}
const DenseRows<std::int16_t>& Qubo::rows16() const {
  std::call_once(rows16_once_, [this] { make_rows(rows16_); });
  return rows16_;
}
const DenseRows<std::int32_t>& Qubo::rows32() const {
  std::call_once(rows32_once_, [this] { make_rows(rows32_); });
  return rows32_;
}

}  // namespace isinglass
