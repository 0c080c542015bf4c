// What batches of small QUBOs share: where they run, how reads are laid out, how they come back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device_memory.hpp"
#include "isinglass/control.hpp"
#include "isinglass/parallel.hpp"
#include "isinglass/reads.hpp"
#include "qubo_rows.hpp"
#include "runtime.hpp"
#include "staging.hpp"
#include "warp_record.hpp"

namespace isinglass::cuda {

/// Where a batch runs. What it finds does not depend on it.
struct Placement {
  int device = 0;
  unsigned warps = 0;                          // of a block; 0: by the size of the problems
  std::uint64_t slice = 0;                     // sweeps of the first launch; 0: by the size of the batch
  std::size_t portion = 0;                     // problems that are staged at a time; 0: by their bytes
  std::shared_ptr<DeviceMemory> samples = {};  // (reads, n) bytes where those of a large model stay, too
  unsigned parts = 0;                          // blocks that share 32 replicas of a sparse model; 0: by its size
};

/// Of one portion.
inline constexpr std::size_t kMostReadsAtOnce = std::size_t{1} << 16;

/// Sweeps that a first launch may take, for `attempts` of all reads a sweep and `n` variables of the largest: 20 ms, as
/// far as one can tell before any was timed. Many reads share the device, few wait for their own flips, one by one.
inline std::uint64_t first_slice(const Placement& placement, std::size_t attempts, std::size_t n) {
  constexpr double kSeconds = 0.02, kAttemptsPerSecond = 2e10, kSecondsOfFlip = 8e-8;
  if (placement.slice > 0) return placement.slice;
  const double shared = static_cast<double>(std::max<std::size_t>(1, attempts)) / kAttemptsPerSecond;
  const double alone = static_cast<double>(std::max<std::size_t>(1, n)) * kSecondsOfFlip;
  return static_cast<std::uint64_t>(kSeconds / std::max(shared, alone));
}

/// body(i) for i in [0, count) on threads, whatever the control of the search says.
inline void on_threads(std::size_t count, int threads, const std::function<void(std::size_t)>& body) {
  Control calm(std::numeric_limits<double>::infinity());
  parallel_for(count, threads, calm, body);
}

inline void pack_state(const std::uint8_t* state, std::size_t n, std::uint32_t* words) {
  std::fill_n(words, kMostBlocks, 0U);
  for (std::size_t i = 0; i < n; ++i) words[i / 32] |= static_cast<std::uint32_t>(state[i]) << i % 32;
}
inline void unpack_state(const std::uint32_t* words, std::size_t n, std::uint8_t* state) {
  for (std::size_t i = 0; i < n; ++i) state[i] = words[i / 32] >> i % 32 & 1;
}

/// The reads of one job of a batch, which come generation by generation as run_generations (reads.hpp) says, several
/// generations at once where no target can end them earlier.
class ReadsInHand {
 public:
  ReadsInHand(const Qubo& qubo, const ReadOptions& options, Reads& reads)
      : qubo_(qubo), options_(options), reads_(reads) {}

  bool open() const { return !ended_ && reads_.count < options_.num_reads; }
  /// Reads that the next launch walks, from reads.count on.
  std::size_t wanted(bool stopped) const {
    const std::size_t rest = options_.num_reads - reads_.count;
    return std::min(rest, stopped ? 1 : options_.target_energy ? kReadsPerGeneration : kMostReadsAtOnce);
  }
  /// Takes the end of `count` reads: word(r) are the words of the state of read r, flips(r) its flips.
  template <class WordsOf, class FlipsOf>
  void take(std::size_t count, StopReason stopped, WordsOf words, FlipsOf flips) {
    reads_.stopped = stopped;
    ended_ = stopped != StopReason::none;
    if (ended_ && reads_.generations > 0) return;  // these ones are not whole
    const std::size_t n = qubo_.size(), first = reads_.count;
    reads_.states.resize((first + count) * n);
    reads_.energies.resize(first + count);
    for (std::size_t r = 0; r < count; ++r) {
      unpack_state(words(r), n, reads_.states.data() + (first + r) * n);
      reads_.flips.push_back(flips(r));
    }
    energies(qubo_.view(), reads_.states.data() + first * n, count, reads_.energies.data() + first);
    reads_.count += count;
    const double* const found = reads_.energies.data() + first;
    reads_.target_reached =
        options_.target_energy && *std::min_element(found, found + count) <= *options_.target_energy;
    if (!ended_) reads_.generations += (count + kReadsPerGeneration - 1) / kReadsPerGeneration;
    ended_ = ended_ || reads_.target_reached;
  }

 private:
  const Qubo& qubo_;
  const ReadOptions& options_;
  Reads& reads_;
  bool ended_ = false;
};

/// The reads of one job under way.
template <class Job, class Found>
struct SmallWalk {
  SmallWalk(const Job& job_in, Found& found_in, Reads& reads)
      : job(job_in), found(found_in), hand(*job.qubo, job.options, reads) {}

  const Job& job;
  Found& found;
  ReadsInHand hand;
};

/// Walks until all have ended, in portions: while the device works on one, the host fills the next. A Portion is begun
/// by its constructor, with the next wanted[k] reads of chosen[k] (stopped: they end at once), and ended by `finish`.
template <class Portion, class Walk, class BytesOf, class Begin>
void in_portions(std::vector<Walk>& walks, const Placement& placement, Control& control, BytesOf bytes_of,
                 Begin begin) {
  struct Running {
    std::vector<Walk*> walks;
    std::unique_ptr<Portion> portion;
  };
  const auto begun = [&](std::vector<Walk*> chosen, bool stopped) {
    std::vector<std::size_t> wanted;
    for (const Walk* walk : chosen) wanted.push_back(walk->hand.wanted(stopped));
    std::unique_ptr<Portion> portion = begin(chosen, std::move(wanted), stopped);
    return Running{std::move(chosen), std::move(portion)};
  };
  std::size_t done = 0;
  const auto finish = [&](Running running) {
    while (!running.walks.empty()) {
      running.portion->finish();
      done += std::erase_if(running.walks, [](const Walk* walk) { return !walk->hand.open(); });
      if (!running.walks.empty()) running = begun(std::move(running.walks), control.reason() != StopReason::none);
    }
    control.report(static_cast<double>(done) / static_cast<double>(walks.size()));
  };
  Running running;
  for (std::size_t next = 0; next < walks.size();) {
    const bool stopped = control.stop();
    std::vector<Walk*> chosen;
    for (std::size_t bytes = 0, reads = 0; next < walks.size(); ++next) {
      const std::size_t count = walks[next].hand.wanted(stopped);
      bytes += bytes_of(walks[next], count);
      reads += count;
      const bool enough = placement.portion > 0 ? chosen.size() == placement.portion
                                                : bytes > kPortionBytes && chosen.size() >= kPortionProblems;
      if (!chosen.empty() && (enough || bytes > kMostPortionBytes || reads > kMostReadsAtOnce)) break;
      chosen.push_back(&walks[next]);
    }
    finish(std::exchange(running, begun(std::move(chosen), stopped)));
  }
  finish(std::move(running));
}

/// Jobs by what the walks of one launch have in common: the shape of their rows, and `key_of(job)`.
template <class Job, class KeyOf>
auto grouped(std::span<const Job> jobs, std::size_t shared_bytes, KeyOf key_of) {
  std::map<std::pair<RowShape, decltype(key_of(jobs[0]))>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    groups[{row_shape(*jobs[i].qubo, shared_bytes), key_of(jobs[i])}].push_back(i);
  }
  return groups;
}

}  // namespace isinglass::cuda
