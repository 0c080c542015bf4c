#include "large_tabu.hpp"

#include <algorithm>
#include <limits>

#include "generations.hpp"
#include "large_batch.hpp"
#include "large_tabu_kernels.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::size_t kReadsAtOnce = 2048;
constexpr std::uint64_t kFirstMoves = 1 << 12;    // of a read, in the first launch: some milliseconds
constexpr std::uint64_t kMostMoves = 1ULL << 30;  // of a launch, which counts them in 32 bits

/// Reads of one model, whose states begin at random or as given.
class Search {
 public:
  Search(const Qubo& qubo, const TabuOptions& options, const Placement& placement, std::size_t first, std::size_t count)
      : qubo_(qubo),
        options_(options),
        first_moves_(placement.slice > 0 ? placement.slice : kFirstMoves),
        n_(qubo.size()),
        words_(words_of(n_)),
        first_(first),
        count_(count),
        batch_(placement.device),
        rows_(batch_, qubo),
        tasks_(batch_.in_out<LargeTabuTask>(count)),
        given_(batch_.input<std::uint32_t>(options.initial_states != nullptr ? count * words_ : 0)),
        progress_(batch_.output<TabuProgress>(count)),
        bests_(batch_.output<std::uint32_t>(count * words_)),
        states_(batch_.scratch<std::uint32_t>(count * words_)),
        holds_(batch_.scratch<std::uint32_t>(count * field_count(n_))),
        fields_(batch_.scratch<std::byte>(count * field_bytes(n_, rows_.narrow()))) {
    batch_.allocate();
    rows_.fill();
    for (std::size_t r = 0; options.initial_states != nullptr && r < count; ++r) {
      pack(options.initial_states + (first + r) * n_, n_, batch_.host(given_).data() + r * words_);
    }
  }

  void run(std::uint64_t round, Control& control) {
    for (std::size_t r = 0; r < count_; ++r) {
      batch_.host(tasks_)[r] = {first_ + r + (round << 32), 0, round == 0 ? TabuTurn::first : TabuTurn::begins};
    }
    batch_.upload();
    LargeTabuArgs args{rows_.device(),
                       {options_.patience, options_.max_moves, integer_target(qubo_, options_.target_energy),
                        options_.tenure.low, options_.tenure.spread},
                       options_.seed,
                       batch_.device(tasks_),
                       round == 0 && options_.initial_states != nullptr ? batch_.device(given_) : nullptr,
                       batch_.device(progress_),
                       batch_.device(states_),
                       batch_.device(bests_),
                       batch_.device(holds_),
                       batch_.device(fields_),
                       0};
    until_done(first_moves_, control, [&](std::uint64_t moves) {
      args.moves = static_cast<std::uint32_t>(std::min(moves, kMostMoves));
      batch_.launch(rows_.pick(large_tabu_kernels),
                    {static_cast<unsigned>(count_), tabu_threads(n_), large_tabu_bytes(n_, rows_.narrow())}, args);
      batch_.download();
      batch_.wait();
      const auto done = std::ranges::count(batch_.host(tasks_), TabuTurn::rests, &LargeTabuTask::turn);
      if (options_.report) control.report(static_cast<double>(done) / static_cast<double>(count_));
      return static_cast<std::size_t>(done) == count_;
    });
  }

  const TabuProgress& progress(std::size_t read) const { return batch_.host(progress_)[read]; }
  const std::uint32_t* bests() const { return batch_.device(bests_); }
  void best(std::size_t read, std::uint8_t* state) const {
    unpack(batch_.host(bests_).data() + read * words_, n_, state);
  }

 private:
  const Qubo& qubo_;
  const TabuOptions& options_;
  std::uint64_t first_moves_;
  std::size_t n_, words_, first_, count_;
  Batch batch_;
  LargeRows rows_;
  Array<LargeTabuTask> tasks_;
  Array<std::uint32_t> given_;
  Array<TabuProgress> progress_;
  Array<std::uint32_t> bests_, states_, holds_;
  Array<std::byte> fields_;
};

bool reached(const TabuOptions& options, const Reads& reads) {
  return options.target_energy && *std::ranges::min_element(reads.energies) <= *options.target_energy;
}

}  // namespace

Reads large_tabu(const Qubo& qubo, const TabuOptions& options, const Placement& placement, Control& control) {
  const double begin_seconds = control.seconds();
  const std::size_t n = qubo.size();
  Reads reads;
  for (std::size_t first = 0; first < options.num_reads;) {
    const std::size_t count = std::min(kReadsAtOnce, options.num_reads - first), whole = reads.count;
    Search search(qubo, options, placement, first, count);
    std::vector<std::int64_t> best(count, std::numeric_limits<std::int64_t>::max());
    reads.count = first + count;
    reads.states.resize(reads.count * n);
    reads.energies.resize(reads.count);
    reads.flips.resize(reads.count);
    // Without counters of the caller every read starts again until the clock ends it, and keeps its best.
    for (std::uint64_t round = 0; round == 0 || (options.until_stopped && !control.stop()); ++round) {
      search.run(round, control);
      std::vector<KeptState> kept;
      for (std::size_t r = 0; r < count; ++r) {
        if (search.progress(r).best_energy >= best[r]) continue;
        kept.push_back({static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(first + r)});
      }
      keep_states(placement, n, search.bests(), false, kept);
      on_threads(count, options.threads, [&](std::size_t r) {
        reads.flips[first + r] += search.progress(r).moves;
        if (search.progress(r).best_energy >= best[r]) return;
        best[r] = search.progress(r).best_energy;
        std::uint8_t* const state = reads.states.data() + (first + r) * n;
        search.best(r, state);
      });
      energies_of(qubo, reads.states.data() + first * n, count, options.threads, reads.energies.data() + first);
      if (reached(options, reads)) break;
    }
    first += count;
    if (control.reason() != StopReason::none && whole > 0) reads.count = whole;  // these ones were cut short
    if (reached(options, reads) || control.stop()) break;
  }
  const std::vector<double> lowest = count_generations(options.target_energy, control.reason(), n, reads);
  if (options.trace) reads.trace = lowest;
  reads.search_seconds = control.seconds() - begin_seconds;
  return reads;
}

}  // namespace isinglass::cuda
