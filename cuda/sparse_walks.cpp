#include "sparse_walks.hpp"

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

/// Replicas in the lanes of blocks.
class SparseForm {
 public:
  SparseForm(Batch& batch, const Qubo& qubo, const Start& start)
      : batch_(batch),
        qubo_(qubo),
        start_(start),
        n_(qubo.size()),
        blocks_((start.count + 31) / 32),
        levels_(qubo.sparse_rows()),
        row_start_(batch.input<std::int64_t>(n_ + 1)),
        couplings_(batch.input<Coupling>(qubo.sparse_rows().entries.size())),
        linear_(batch.input<std::int32_t>(n_)),
        order_(batch.input<std::uint32_t>(n_)),
        level_start_(batch.input<std::uint32_t>(levels_.start.size())),
        given_(batch.input<std::uint32_t>(start.states != nullptr ? blocks_ * n_ : 0)),
        states_(batch.output<std::uint32_t>(blocks_ * n_)),
        records_(batch.output<ReplicaRecord>(start.count)),
        bests_(batch.scratch<std::uint32_t>(blocks_ * n_)),
        moved_(batch.scratch<std::uint32_t>(1)),
        parts_(start.parts > 0 ? start.parts : parts_by_size()) {}

  void fill() const {
    const SparseRows& rows = qubo_.sparse_rows();
    std::copy(rows.start.begin(), rows.start.end(), batch_.host(row_start_).begin());
    std::copy(rows.entries.begin(), rows.entries.end(), batch_.host(couplings_).begin());
    std::copy(qubo_.linear().begin(), qubo_.linear().end(), batch_.host(linear_).begin());
    std::copy(levels_.order.begin(), levels_.order.end(), batch_.host(order_).begin());
    std::copy(levels_.start.begin(), levels_.start.end(), batch_.host(level_start_).begin());
    if (start_.states == nullptr) return;
    const auto words = batch_.host(given_);
    std::fill(words.begin(), words.end(), 0);
    for (std::size_t r = 0; r < start_.count; ++r) {
      const std::uint8_t* const state = start_.states + r / start_.of_state * n_;
      for (std::size_t i = 0; i < n_; ++i) words[r / 32 * n_ + i] |= static_cast<std::uint32_t>(state[i]) << r % 32;
    }
  }

  void launch(const SweepSlice& slice) const {
    SparseArgs args{{batch_.device(row_start_), batch_.device(couplings_), batch_.device(linear_),
                     batch_.device(order_), batch_.device(level_start_), static_cast<std::uint32_t>(n_),
                     static_cast<std::uint32_t>(levels_.start.size() - 1)},
                    start_.seed,
                    start_.first,
                    static_cast<std::uint32_t>(start_.count),
                    batch_.device(records_),
                    batch_.device(states_),
                    start_.states != nullptr ? batch_.device(given_) : nullptr,
                    batch_.device(bests_),
                    slice.t2,
                    slice.t2_each,
                    slice.over,
                    slice.first,
                    slice.count,
                    slice.begins,
                    slice.keep_best,
                    slice.finish};
    if (parts_ > 1) {
      launch_spread(args);
      return;
    }
    const std::size_t warps = std::clamp<std::size_t>(levels_.widest(), 1, kSparseThreads / 32);
    batch_.launch(sparse_sweep, {static_cast<unsigned>(blocks_), static_cast<unsigned>(32 * warps), kSparseBytes},
                  args);
  }

  static constexpr bool kByVariable = true;
  const std::uint32_t* words() const { return batch_.device(states_); }
  const ReplicaRecord* records() const { return batch_.device(records_); }
  const ReplicaRecord& record(std::size_t replica) const { return batch_.host(records_)[replica]; }
  void state(std::size_t replica, std::uint8_t* out) const {
    const auto words = batch_.host(states_).subspan(replica / 32 * n_, n_);
    for (std::size_t i = 0; i < n_; ++i) out[i] = words[i] >> replica % 32 & 1;
  }

 private:
  /// Blocks that share 32 replicas: several where one would leave most of the device idle for long, since a launch for
  /// every level is then the lesser evil.
  std::uint32_t parts_by_size() const {
    constexpr std::size_t kWideLevel = 512, kWarpsOfPart = kSpreadThreads / 32, kPartsOfOne = 4;
    const auto multiprocessors = static_cast<std::size_t>(batch_.info().multiprocessors);
    if (2 * blocks_ > multiprocessors || n_ < kWideLevel * (levels_.start.size() - 1)) return 1;
    const std::size_t useful = (levels_.widest() + kWarpsOfPart - 1) / kWarpsOfPart;
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(kPartsOfOne * multiprocessors / blocks_, 1, useful));
  }

  void launch_spread(SparseArgs args) const {
    const auto step = [&](SparseStep what, std::uint32_t level = 0) {
      batch_.launch(sparse_spread, {static_cast<unsigned>(blocks_) * parts_, kSpreadThreads},
                    SparseSpreadArgs{args, what, parts_, level, batch_.device(moved_)});
    };
    if (args.begins) {
      step(SparseStep::draw);
      step(SparseStep::add);
      step(SparseStep::note);
    }
    for (std::uint32_t k = 0; k < args.count; ++k, ++args.first_sweep) {
      for (std::uint32_t level = 0; level < args.model.levels; ++level) step(SparseStep::visit, level);
      if (args.keep_best) step(SparseStep::keep);
      step(SparseStep::note);
    }
    if (!args.finish) return;
    step(SparseStep::settle);
    step(SparseStep::lower);
    for (std::uint32_t before = 1, now = 0; now != before;) {
      before = now;
      for (std::uint32_t level = 0; level < args.model.levels; ++level) step(SparseStep::cool, level);
      batch_.fetch(&now, batch_.device(moved_), sizeof now);
      batch_.wait();
    }
  }

  Batch& batch_;
  const Qubo& qubo_;
  Start start_;
  std::size_t n_, blocks_;
  Levels levels_;
  Array<std::int64_t> row_start_;
  Array<Coupling> couplings_;
  Array<std::int32_t> linear_;
  Array<std::uint32_t> order_, level_start_;
  Array<std::uint32_t> given_, states_;
  Array<ReplicaRecord> records_;
  Array<std::uint32_t> bests_, moved_;
  std::uint32_t parts_;
};

}  // namespace

Reads sparse_anneal(const Qubo& qubo, const AnnealOptions& options, const Placement& placement, Control& control) {
  return anneal_one<SparseForm>(qubo, options, placement, control);
}

Tempered sparse_temper(const Qubo& qubo, const TemperOptions& options, const Placement& placement, Control& control) {
  return temper_one<SparseForm>(qubo, options, placement, control);
}

}  // namespace isinglass::cuda
