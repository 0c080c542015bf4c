#include "isinglass/anneal.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include "isinglass/parallel.hpp"

namespace isinglass {
namespace {

constexpr std::size_t kAttemptsPerSlice = std::size_t{1} << 18;  // between two looks at the control: milliseconds
constexpr std::int64_t kNoEnergy = std::numeric_limits<std::int64_t>::max();

/// Reads [first, first + count) from their start to their end, in one layout.
class Search {
 public:
  Search(const Qubo& qubo, const AnnealOptions& options, Control& control, Reads& reads)
      : qubo_(qubo), options_(options), control_(control), reads_(reads) {
    const std::size_t n = std::max<std::size_t>(1, qubo.size());
    slice_ = static_cast<std::uint32_t>(std::max<std::size_t>(1, kAttemptsPerSlice / n / capacity(reads.layout)));
  }

  /// Reads that were walked, `count` unless the control stopped: then the first ones, at least one block.
  std::size_t generation(std::size_t first, std::size_t count) {
    const std::size_t step = capacity(reads_.layout), blocks = (count + step - 1) / step;
    traces_.assign(options_.trace ? blocks : 0, {});
    std::vector<std::uint8_t> begun(blocks);
    const auto walk = [&](std::size_t b) {
      begun[b] = 1;
      run(first + b * step, std::min(step, count - b * step), options_.trace ? &traces_[b] : nullptr);
    };
    parallel_for(blocks, options_.threads, control_, walk);
    if (!begun[0]) walk(0);
    for (const auto& trace : traces_) {
      for (std::size_t k = 0; k < trace.size(); ++k) trace_[k] = std::min(trace_[k], trace[k]);
    }
    const auto walked = static_cast<std::size_t>(std::find(begun.begin(), begun.end(), 0) - begun.begin());
    return std::min(count, walked * step);
  }

  /// In the caller's units, as a running minimum; empty until something has walked.
  std::vector<double> trace() const {
    std::vector<double> out;
    std::int64_t lowest = kNoEnergy;
    for (std::int64_t energy : trace_) {
      lowest = std::min(lowest, energy);
      if (lowest != kNoEnergy) out.push_back(static_cast<double>(lowest) / qubo_.scale() + qubo_.view().offset);
    }
    return out;
  }

  void reserve_trace() { trace_.assign(options_.trace ? options_.t2.size() : 0, kNoEnergy); }

 private:
  void run(std::size_t first, std::size_t count, std::vector<std::int64_t>* trace) {
    const std::size_t n = qubo_.size();
    const auto sweeps = static_cast<std::uint32_t>(options_.t2.size());
    Replicas replicas(qubo_, reads_.layout, options_.seed, first, count);
    options_.initial_states ? replicas.begin(options_.initial_states + first * n) : replicas.begin_random();
    if (trace != nullptr) trace->assign(sweeps, kNoEnergy);
    bool cut = control_.reason() != StopReason::none;
    for (std::uint32_t k = 0; k < sweeps && !cut; k += slice_) {
      const std::uint32_t step = std::min(slice_, sweeps - k);
      replicas.sweep(
          {k, step, options_.t2.data() + k, trace == nullptr ? nullptr : trace->data() + k, options_.quench});
      swept_.fetch_add(static_cast<double>(step) * static_cast<double>(count), std::memory_order_relaxed);
      if (options_.report) {
        control_.report(swept_.load(std::memory_order_relaxed) /
                        (static_cast<double>(sweeps) * static_cast<double>(options_.num_reads)));
      }
      cut = k + step < sweeps && control_.stop();
    }
    if (options_.quench && sweeps > 0) {
      replicas.return_to_best();
      replicas.quench();
    }
    replicas.end(reads_.states.data() + first * n);
    energies(qubo_.view(), reads_.states.data() + first * n, count, reads_.energies.data() + first);
    for (std::size_t r = 0; r < count; ++r) reads_.flips[first + r] = replicas.flips(r);
  }

  const Qubo& qubo_;
  const AnnealOptions& options_;
  Control& control_;
  Reads& reads_;
  std::uint32_t slice_;
  std::atomic<double> swept_{0};
  std::vector<std::vector<std::int64_t>> traces_;
  std::vector<std::int64_t> trace_;
};

}  // namespace

Reads anneal(const Qubo& qubo, const AnnealOptions& options, Control& control) {
  const double begin_seconds = control.seconds();
  Reads reads;
  reads.layout = options.layout ? *options.layout : choose_layout(qubo, options.num_reads);
  Search search(qubo, options, control, reads);
  search.reserve_trace();
  const auto hold = [&](std::size_t count) {
    reads.states.resize(count * qubo.size());
    reads.energies.resize(count);
    reads.flips.resize(count);
  };
  while (reads.count < options.num_reads) {
    const std::size_t wanted = std::min(kReadsPerGeneration, options.num_reads - reads.count);
    hold(reads.count + wanted);
    const std::size_t count = search.generation(reads.count, wanted);
    reads.stopped = control.reason();
    if (reads.stopped != StopReason::none && reads.generations > 0) break;  // this one is not whole
    reads.count += count;
    if (reads.stopped != StopReason::none) break;
    ++reads.generations;
    if (options.target_energy) {
      const auto begin = reads.energies.begin() + static_cast<std::ptrdiff_t>(reads.count - count);
      reads.target_reached =
          *std::min_element(begin, begin + static_cast<std::ptrdiff_t>(count)) <= *options.target_energy;
      if (reads.target_reached) break;
    }
  }
  hold(reads.count);
  reads.trace = search.trace();
  reads.search_seconds = control.seconds() - begin_seconds;
  return reads;
}

}  // namespace isinglass
