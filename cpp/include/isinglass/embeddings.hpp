// Similarities that are computed from embeddings when they are looked at.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "isinglass/control.hpp"

namespace isinglass {

/// Forms elsewhere what takes long of some Embeddings, the same numbers: a device.
class SimilarityDevice {
 public:
  virtual ~SimilarityDevice() = default;
  /// Embeddings::row.
  virtual void row(std::size_t item, float* out) = 0;
  /// out[k] = sum of max(0, similarity(items[k], c) - floor[c]) over the columns c of these panels, ascending, in 16
  /// lanes.
  virtual void excess(std::span<const std::size_t> items, std::span<const std::int32_t> panels,
                      std::span<const double> floor, double* out) = 0;
};

/// Unit rows of an (n, d) matrix; similarity(i, j) = max(0, cosine), 1 of a row with itself, 0 of a row of zeros with
/// any. In float32, each summed over the dimensions in their order: the same bits however they are asked for. Columns
/// are all items, or a sample of them.
class Embeddings {
 public:
  static constexpr std::size_t kPanel = 16;          // columns
  static constexpr std::size_t kItemsOfSum = 16384;  // of a sample's columns, that are summed together

  /// Copies and scales the rows; `rows` may be changed afterwards.
  Embeddings(const float* rows, std::size_t n, std::size_t d);
  /// Columns are the items of `sample`, ascending. Only their rows are copied: `rows` is read whenever another one is
  /// asked for.
  Embeddings(const float* rows, std::size_t n, std::size_t d, std::span<const std::int32_t> sample);

  struct Sums {
    std::vector<double> rows;     // of each item, over the columns
    std::vector<double> columns;  // of each column, over the items; empty where columns are all items: the same
  };
  /// What the constructors work out, worked out elsewhere, on a device.
  struct Parts {
    const float* rows;            // of a sample, else not looked at
    std::vector<float> own_rows;  // instead of `rows`, where they lie nowhere else on the host
    std::size_t n, d;
    std::vector<std::int32_t> sample;  // or empty
    std::vector<float> panels, self;
    Sums sums;
  };
  explicit Embeddings(Parts parts);
  Embeddings(Embeddings&&) = default;

  std::size_t size() const { return n_; }
  std::size_t dimension() const { return d_; }
  std::size_t num_columns() const { return num_columns_; }
  std::size_t num_panels() const { return (num_columns_ + kPanel - 1) / kPanel; }
  /// Similarity of a column's item with itself: 1, or 0 of a row of zeros.
  float self(std::size_t column) const { return self_[column]; }
  /// The unit row of an item, (d,).
  void unit(std::size_t item, float* out) const;

  /// Similarities of `items`, whose unit rows are `units` (count, d), with the 16 columns of a panel: out (count, 16).
  /// Past the last column they are 0.
  void with_panel(std::span<const std::size_t> items, const float* units, std::size_t panel, float* out) const;
  /// Row `item` of the matrix, (num_columns,) and what its last panel has beyond.
  void row(std::size_t item, float* out) const;
  /// out_c += similarities of `items`, in their order, with column c; out has what the last panel has beyond, too.
  void add_rows(std::span<const std::size_t> items, double* out) const;
  /// out_j += sum over k of weights[k] similarity(j, columns[k]), for every item j; each sum runs in 16 lanes over k.
  /// Undefined once `control` has stopped.
  void add_columns(std::span<const std::size_t> columns, std::span<const double> weights, double* out,
                   Control& control) const;

  /// Similarities of the rows of another matrix, (count, d), none of which is an item, with all columns: out
  /// (count, num_columns). Undefined once `control` has stopped.
  void of_rows(const float* rows, std::size_t count, float* out, int threads, Control& control) const;

  /// The matrix (n, n) of all columns.
  void matrix(float* out, int threads, Control& control) const;

  /// Sums of rows in 16 lanes, like those of a stored row; of a sample's columns in 16 lanes of each 16,384 items. Half
  /// of the matrix, by tiles, serves all columns; with more than two threads the whole of it, split by rows. Undefined
  /// once `control` has stopped.
  Sums sums(int threads, Control& control) const;
  /// Lets a device do its part of what this thread asks from now on, or (nullptr) no longer. Other threads work out the
  /// same numbers without it, and where one of them has a device this one gets none. One call at a time.
  void lend(std::unique_ptr<SimilarityDevice> device) const;
  /// The device that this thread was lent, or nullptr.
  SimilarityDevice* device() const {
    return loan_->borrower == std::this_thread::get_id() ? loan_->device.get() : nullptr;
  }

  /// Bytes that `sums` takes for a sample, beside what it returns.
  static std::size_t bytes_of_sample_sums(std::size_t n, std::size_t columns);

 private:
  struct Loan {
    std::unique_ptr<SimilarityDevice> device;
    std::atomic<std::thread::id> borrower{};
  };

  bool sampled() const { return !sample_.empty(); }
  const float* panel(std::size_t p) const { return panels_.data() + p * kPanel * d_; }
  void place(const float* rows);
  void transpose(const float* units, float* out) const;
  std::size_t own_entry(std::size_t item, std::size_t panel) const;
  void tiles(std::size_t a, std::size_t b, std::size_t count, float* out) const;
  std::vector<double> sums_of_all(int threads, Control& control) const;
  Sums sums_of_sample(int threads, Control& control) const;

  std::size_t n_, d_, num_columns_;
  std::vector<float> own_rows_;
  const float* rows_ = nullptr;  // of a sample
  std::vector<std::int32_t> sample_;
  std::vector<float> panels_;  // entry k of column c of panel p at [(p d + k) 16 + c]
  std::vector<float> self_;
  std::optional<Sums> known_sums_;
  std::unique_ptr<Loan> loan_ = std::make_unique<Loan>();
};

}  // namespace isinglass
