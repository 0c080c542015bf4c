// Packing problems and the answers to many of them, as Python holds them.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "isinglass/embeddings.hpp"
#include "isinglass/greedy.hpp"
#include "isinglass/packing.hpp"

namespace isinglass {

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// A packing problem together with the NumPy arrays that it views. What takes a while to make of them is made by the
/// first call that needs it, under that call's control, and kept unless that stopped it.
class PackingHandle {
 public:
  std::vector<py::object> owners;
  PackingView view;
  std::vector<UserTerm> terms;  // of the caller, viewed
  bool embedded = false;        // similarities come from embeddings:
  const float* rows = nullptr;  // (view.n, dimension), or nullptr: on a device
  std::size_t dimension = 0;
  std::optional<std::span<const std::int32_t>> sample;  // of their columns
  bool stores_similarity = false;                       // makes the matrix that they mean
  int threads = 1;

  std::size_t size() const { return view.n; }
  bool is_small() const { return !embedded && view.n <= kSmall; }

  /// Never with the GIL held, unless the problem is small: another thread may be at it, and wait for the GIL.
  std::shared_ptr<const PackingProblem> problem(Control* control) const {
    const std::lock_guard lock(mutex_);
    if (made_) return made_;
    Control unwatched(kNoLimit);
    Control& watch = control != nullptr ? *control : unwatched;
    auto making = std::make_shared<Making>();
    PackingView complete = view;
    if (embedded) {
      making->embeddings = adopted_;
      // Stopped before a device had summed them: they are not looked at then, whatever their dimension.
      const bool lost = !making->embeddings && rows == nullptr;
      if (lost && !watch.stop()) {
        throw py::value_error("embeddings lie on a CUDA device: solve with backend='cuda', or give a copy of them");
      }
      if (!making->embeddings) {
        const std::size_t d = lost ? 0 : dimension;
        making->embeddings = sample ? std::make_shared<const Embeddings>(rows, view.n, d, *sample)
                                    : std::make_shared<const Embeddings>(rows, view.n, d);
      }
      complete.embeddings = making->embeddings.get();
      if (stores_similarity) {
        making->matrix = std::make_unique_for_overwrite<float[]>(view.n * view.n);
        making->embeddings->matrix(making->matrix.get(), threads, watch);
        if (watch.reason() == StopReason::none) {
          complete.similarity = making->matrix.get();
          complete.embeddings = nullptr;
          making->embeddings.reset();
        }
      }
    }
    making->problem.emplace(complete, threads, &watch);
    std::shared_ptr<const PackingProblem> problem(making, &*making->problem);
    if (!problem->unfinished()) {
      made_ = problem;
      adopted_.reset();
    }
    return problem;
  }

  /// Embeddings that were made elsewhere, unless there are some.
  void adopt(std::unique_ptr<const Embeddings> embeddings) const {
    const std::lock_guard lock(mutex_);
    if (!adopted_) adopted_ = std::move(embeddings);
  }
  /// A device that takes part in what this thread asks of the embeddings, or (nullptr) no longer does.
  void lend(std::unique_ptr<SimilarityDevice> device) const {
    const std::lock_guard lock(mutex_);
    const Embeddings* const embeddings = adopted_ ? adopted_.get() : made_ ? made_->view().embeddings : nullptr;
    if (embeddings != nullptr) embeddings->lend(std::move(device));
  }
  bool has_embeddings() const {
    const std::lock_guard lock(mutex_);
    return adopted_ || made_;
  }

 private:
  static constexpr std::size_t kSmall = 2048;

  /// A problem with what it views beside the caller's arrays.
  struct Making {
    std::shared_ptr<const Embeddings> embeddings;
    std::unique_ptr<float[]> matrix;
    std::optional<PackingProblem> problem;
  };

  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Embeddings> adopted_;
  mutable std::shared_ptr<const PackingProblem> made_;
};

/// Answers of one native batch, read by column or one by one.
struct PackingBatch {
  std::vector<Packing> packings;

  template <class T, class Value>
  py::array_t<T> column(Value value) const {
    std::vector<T> values;
    values.reserve(packings.size());
    for (const Packing& packing : packings) values.push_back(value(packing));
    return to_array<T>(values);
  }
  /// The rows of all answers, one after another.
  template <class T, class Row>
  py::array_t<T> joined(Row row) const {
    std::vector<T> values;
    for (const Packing& packing : packings) values.insert(values.end(), row(packing).begin(), row(packing).end());
    return to_array<T>(values);
  }
};

}  // namespace isinglass
