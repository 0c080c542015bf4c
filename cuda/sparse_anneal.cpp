#include "sparse_anneal.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "one_model.hpp"
#include "sparse_kernels.hpp"

namespace isinglass::cuda {
namespace {

/// Variables by level, see sparse_kernels.hpp, ascending within one.
struct Levels {
  explicit Levels(const SparseRows& rows) {
    const std::size_t n = rows.start.size() - 1;
    std::vector<std::uint32_t> level(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (auto k = static_cast<std::size_t>(rows.start[i]); k < static_cast<std::size_t>(rows.start[i + 1]); ++k) {
        const auto j = static_cast<std::size_t>(rows.entries[k].neighbour);
        if (j > i) break;
        level[i] = std::max(level[i], level[j] + 1);
      }
      if (level[i] + 2 > start.size()) start.resize(level[i] + 2);
      ++start[level[i] + 1];
    }
    if (start.empty()) start.resize(1);
    std::partial_sum(start.begin(), start.end(), start.begin());
    std::vector<std::uint32_t> next(start);
    order.resize(n);
    for (std::size_t i = 0; i < n; ++i) order[next[level[i]]++] = static_cast<std::uint32_t>(i);
  }

  std::size_t widest() const {
    std::size_t most = 0;
    for (std::size_t l = 0; l + 1 < start.size(); ++l) most = std::max<std::size_t>(most, start[l + 1] - start[l]);
    return most;
  }

  std::vector<std::uint32_t> order, start;
};

/// Reads in the lanes of blocks.
class SparseForm {
 public:
  SparseForm(Batch& batch, const Qubo& qubo, const AnnealOptions& options, std::size_t first, std::size_t count)
      : batch_(batch),
        qubo_(qubo),
        options_(options),
        n_(qubo.size()),
        first_(first),
        count_(count),
        blocks_((count + 31) / 32),
        levels_(qubo.sparse_rows()),
        row_start_(batch.input<std::int64_t>(n_ + 1)),
        couplings_(batch.input<Coupling>(qubo.sparse_rows().entries.size())),
        linear_(batch.input<std::int32_t>(n_)),
        order_(batch.input<std::uint32_t>(n_)),
        level_start_(batch.input<std::uint32_t>(levels_.start.size())),
        t2_(batch.input<float>(options.t2.size())),
        given_(batch.input<std::uint32_t>(options.initial_states != nullptr ? blocks_ * n_ : 0)),
        states_(batch.output<std::uint32_t>(blocks_ * n_)),
        records_(batch.output<SparseRecord>(count)),
        bests_(batch.scratch<std::uint32_t>(blocks_ * n_)) {}

  void fill() const {
    const SparseRows& rows = qubo_.sparse_rows();
    std::copy(rows.start.begin(), rows.start.end(), batch_.host(row_start_).begin());
    std::copy(rows.entries.begin(), rows.entries.end(), batch_.host(couplings_).begin());
    std::copy(qubo_.linear().begin(), qubo_.linear().end(), batch_.host(linear_).begin());
    std::copy(levels_.order.begin(), levels_.order.end(), batch_.host(order_).begin());
    std::copy(levels_.start.begin(), levels_.start.end(), batch_.host(level_start_).begin());
    std::copy(options_.t2.begin(), options_.t2.end(), batch_.host(t2_).begin());
    if (options_.initial_states == nullptr) return;
    const auto words = batch_.host(given_);
    std::fill(words.begin(), words.end(), 0);
    for (std::size_t r = 0; r < count_; ++r) {
      const std::uint8_t* const state = options_.initial_states + (first_ + r) * n_;
      for (std::size_t i = 0; i < n_; ++i) words[r / 32 * n_ + i] |= static_cast<std::uint32_t>(state[i]) << r % 32;
    }
  }

  void launch(const SweepSlice& slice) const {
    SparseArgs args{};
    args.model = {batch_.device(row_start_),
                  batch_.device(couplings_),
                  batch_.device(linear_),
                  batch_.device(order_),
                  batch_.device(level_start_),
                  static_cast<std::uint32_t>(n_),
                  static_cast<std::uint32_t>(levels_.start.size() - 1)};
    args.seed = options_.seed;
    args.first_read = first_;
    args.replicas = static_cast<std::uint32_t>(count_);
    args.records = batch_.device(records_);
    args.states = batch_.device(states_);
    args.given = options_.initial_states != nullptr ? batch_.device(given_) : nullptr;
    args.bests = batch_.device(bests_);
    args.t2 = batch_.device(t2_);
    args.first = slice.first;
    args.count = slice.count;
    args.begins = slice.begins;
    args.keep_best = options_.quench;
    args.finish = slice.finish;
    const std::size_t warps = std::clamp<std::size_t>(levels_.widest(), 1, kSparseThreads / 32);
    batch_.launch(sparse_sweep, {static_cast<unsigned>(blocks_), static_cast<unsigned>(32 * warps), kSparseBytes},
                  args);
  }

  void state(std::size_t read, std::uint8_t* out) const {
    const auto words = batch_.host(states_).subspan(read / 32 * n_, n_);
    for (std::size_t i = 0; i < n_; ++i) out[i] = words[i] >> read % 32 & 1;
  }
  std::uint64_t flips(std::size_t read) const { return batch_.host(records_)[read].flips; }

 private:
  Batch& batch_;
  const Qubo& qubo_;
  const AnnealOptions& options_;
  std::size_t n_, first_, count_, blocks_;
  Levels levels_;
  Array<std::int64_t> row_start_;
  Array<Coupling> couplings_;
  Array<std::int32_t> linear_;
  Array<std::uint32_t> order_, level_start_;
  Array<float> t2_;
  Array<std::uint32_t> given_, states_;
  Array<SparseRecord> records_;
  Array<std::uint32_t> bests_;
};

}  // namespace

Reads sparse_anneal(const Qubo& qubo, const AnnealOptions& options, const Placement& placement, Control& control) {
  return anneal_one<SparseForm>(qubo, options, placement, control);
}

}  // namespace isinglass::cuda
