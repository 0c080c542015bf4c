// A QUBO as the search sees it: exact integers, checked at load so that no accumulator can overflow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace isinglass {

/// The caller's model: minimise sum_i linear_i x_i + sum_{i<j} w_ij x_i x_j + offset over x in {0, 1}. The couplings
/// are either dense (n x n, read above the diagonal) or compressed rows that hold each pair in both directions.
struct QuboView {
  std::size_t n = 0;
  std::span<const double> linear;
  const double* dense = nullptr;
  std::span<const std::int64_t> row_start;
  std::span<const std::int32_t> neighbour;
  std::span<const double> coupling;
  double offset = 0;
};

/// Energies of `reads` states, each n bytes of 0 or 1, from the caller's numbers. The terms of a state are added by
/// ascending row, then column, so that a state's energy has the same bits whatever stands beside it.
void energies(const QuboView& view, const std::uint8_t* states, std::size_t reads, double* out);

struct Coupling {
  std::int32_t neighbour;
  std::int32_t weight;
};

/// The same for fields that hold several reads: where those of the neighbour begin, in bytes.
struct LaneCoupling {
  std::uint32_t offset;
  std::int32_t weight;
};

/// Compressed rows of integer couplings, both directions, neighbours ascending.
struct SparseRows {
  std::vector<std::int64_t> start;
  std::vector<Coupling> entries;
};

/// Whole rows of integer couplings, zeros at the diagonal and beyond n, `stride` entries apart.
template <class T>
struct DenseRows {
  std::size_t stride = 0;
  std::vector<T> values;
};

/// Couplings that lie on a device, where its back end alone reads them.
struct Elsewhere {
  Elsewhere() = default;
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;
  virtual ~Elsewhere() = default;
};

/// No field may leave it: the largest threshold, a float below 2^31.
inline constexpr double kLargestField = 2147483520;

/// The integer image of a QuboView: coefficients round-half-even(scale * w). It keeps the view, whose arrays must
/// outlive it, and makes the layouts of the couplings when a kernel first asks for them.
class Qubo {
 public:
  /// `scale`: given (> 0), or nullopt: the exact one where every coefficient is a multiple of a common granule (or
  /// fractions of a common denominator) and no field can leave 32 bits, else the largest one that keeps every field
  /// within 2^30. Throws std::overflow_error when a given scale lets a field leave 32 bits.
  Qubo(const QuboView& view, std::optional<double> scale);
  /// What it measures, measured elsewhere: an exact image whose couplings are not here. The view has none.
  struct Parts {
    QuboView view;
    double scale = 1;
    std::int64_t worst_field = 0, largest_coupling = 0;
    std::size_t num_couplings = 0;
    std::vector<std::int32_t> linear;
    std::vector<double> square_sums;  // of the couplings of each variable
    std::shared_ptr<const Elsewhere> couplings;
  };
  explicit Qubo(Parts parts);

  Qubo(const Qubo&) = delete;
  Qubo& operator=(const Qubo&) = delete;

  std::size_t size() const { return view_.n; }
  /// Where the couplings lie, if not here: then what asks for them throws std::logic_error.
  const Elsewhere* elsewhere() const { return elsewhere_.get(); }
  const QuboView& view() const { return view_; }
  double scale() const { return scale_; }
  /// Every coefficient is its integer divided by the scale, to two units in the last place of a fraction like 0.1.
  bool exact() const { return exact_; }
  /// For every state x: |energy(x) - integer energy(x) / scale| is at most this.
  double max_error() const { return max_error_; }
  /// No field a_i + sum_j w_ij x_j and no coupling leaves [-worst_field, worst_field].
  std::int32_t worst_field() const { return static_cast<std::int32_t>(worst_field_); }
  std::int32_t largest_coupling() const { return static_cast<std::int32_t>(largest_coupling_); }
  std::span<const std::int32_t> linear() const { return linear_; }
  std::size_t num_couplings() const { return num_couplings_; }  // pairs other than 0
  double density() const;
  /// The share-th quantile of sqrt(a'_i^2 + sum_j w_ij^2) over the variables that have any term, in integer units, with
  /// a'_i the bias only where it is the sole term; 0 without terms. What a typical flip costs: one huge coefficient
  /// does not move it.
  double typical_cost(double share) const;

  const SparseRows& sparse_rows() const;
  /// The entries of sparse_rows() for fields of `bytes` a variable, a power of two up to 64.
  const std::vector<LaneCoupling>& lane_couplings(std::size_t bytes) const;
  const DenseRows<std::int8_t>& rows8() const;
  const DenseRows<std::int16_t>& rows16() const;
  const DenseRows<std::int32_t>& rows32() const;

 private:
  std::int64_t integer(double w) const;
  template <class Visit>
  void for_couplings(Visit visit) const;  // visit(i, j, w) for i < j, w != 0
  void measure(bool multiples);
  void count_lone_biases();
  template <class T>
  const DenseRows<T>& make_rows(DenseRows<T>& rows) const;

  QuboView view_;
  double scale_ = 1;
  bool exact_ = false;
  double max_error_ = 0;
  std::int64_t worst_field_ = 0;
  std::int64_t largest_coupling_ = 0;
  std::size_t num_couplings_ = 0;
  std::vector<std::int32_t> linear_;
  std::vector<double> square_sums_;
  std::shared_ptr<const Elsewhere> elsewhere_;

  mutable std::once_flag sparse_once_, rows8_once_, rows16_once_, rows32_once_;
  mutable SparseRows sparse_;
  mutable std::array<std::once_flag, 7> lanes_once_;  // by the logarithm of the bytes
  mutable std::array<std::vector<LaneCoupling>, 7> lanes_;
  mutable DenseRows<std::int8_t> rows8_;
  mutable DenseRows<std::int16_t> rows16_;
  mutable DenseRows<std::int32_t> rows32_;
};

}  // namespace isinglass
