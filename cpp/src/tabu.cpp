#include "isinglass/tabu.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "isinglass/parallel.hpp"

namespace isinglass {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::size_t kStride = 64;                             // entries
constexpr std::size_t kEntriesPerSlice = std::size_t{1} << 19;  // looked at between two looks at the clock
constexpr std::size_t kNarrowVariables = 1 << 17;               // whose blocks 16 bits can number at any width

bool narrow(const Qubo& qubo) {
  return qubo.worst_field() < std::numeric_limits<std::int16_t>::max() && qubo.size() <= kNarrowVariables;
}

const TabuKernels& kernels_of(const Qubo& qubo, Layout layout) {
  const TabuTable& table = tabu_table();
  switch (layout) {
    case Layout::rows32_of16:
      return table.dense32_of16;
    case Layout::rows32_of8:
      return table.dense32_of8;
    case Layout::rows16:
      return table.dense16;
    case Layout::rows16_of8:
      return table.dense16_of8;
    case Layout::sparse:
      return narrow(qubo) ? table.sparse16 : table.sparse32;
    default:
      return table.dense32;
  }
}

const void* rows_of(const Qubo& qubo, Layout layout) {
  switch (layout) {
    case Layout::rows32_of16:
    case Layout::rows16:
      return qubo.rows16().values.data();
    case Layout::rows32_of8:
    case Layout::rows16_of8:
      return qubo.rows8().values.data();
    default:
      return qubo.rows32().values.data();
  }
}

std::size_t padded(std::size_t n) { return (n + kStride - 1) / kStride * kStride; }

}  // namespace

Tenure default_tenure(std::size_t n) {
  constexpr std::size_t kSpread = 10;
  return {static_cast<std::uint32_t>(std::min(n / 100 + 7, n / 4)),
          static_cast<std::uint32_t>(std::min(kSpread, n / 4 + 1))};
}

std::string_view unfit_for_tabu(const Qubo& qubo, Layout layout) {
  if (layout == Layout::lanes32 || layout == Layout::lanes16) return "a search is one read";
  if ((layout == Layout::rows16 || layout == Layout::rows16_of8) && !narrow(qubo)) return "a field may leave 16 bits";
  return unfit(qubo, layout);
}

Layout choose_tabu_layout(const Qubo& qubo) {
  // Adding a whole row takes a pass that the scan makes anyway; a compressed one costs about two cycles a coupling.
  constexpr double kSparse = 0.03;
  constexpr std::size_t kAlwaysDense = 128, kBytesFrom = 512;
  if (qubo.size() > kAlwaysDense && qubo.density() < kSparse) return Layout::sparse;
  const bool bytes = qubo.size() >= kBytesFrom;
  for (Layout layout : {Layout::rows16_of8, Layout::rows16, Layout::rows32_of8, Layout::rows32_of16}) {
    const bool of8 = layout == Layout::rows16_of8 || layout == Layout::rows32_of8;
    if (of8 && !bytes) continue;
    if (unfit_for_tabu(qubo, layout).empty()) return layout;
  }
  return Layout::rows32;
}

std::size_t words_of(std::size_t n) { return (n + 31) / 32; }

void pack(const std::uint8_t* state, std::size_t n, std::uint32_t* words) {
  std::fill_n(words, words_of(n), 0);
  for (std::size_t i = 0; i < n; ++i) words[i / 32] |= static_cast<std::uint32_t>(state[i]) << (i % 32);
}

void unpack(const std::uint32_t* words, std::size_t n, std::uint8_t* state) {
  for (std::size_t i = 0; i < n; ++i) state[i] = words[i / 32] >> (i % 32) & 1;
}

void Tabu::Free::operator()(void* p) const { ::operator delete(p, kAlignment); }

Tabu::Tabu(const Qubo& qubo, Layout layout, Tenure tenure, std::size_t slots)
    : kernels_(kernels_of(qubo, layout)), slots_(slots) {
  if (const std::string_view reason = unfit_for_tabu(qubo, layout); !reason.empty()) {
    throw std::invalid_argument("layout '" + std::string(name(layout)) +
                                "' cannot hold this model: " + std::string(reason));
  }
  const std::size_t n = qubo.size();
  TabuWalk& walk = walk_;
  walk.n = n;
  walk.stride = std::max(kStride, padded(n));
  walk.linear = qubo.linear().data();
  if (layout == Layout::sparse) {
    walk.row_start = qubo.sparse_rows().start.data();
    walk.couplings = qubo.sparse_rows().entries.data();
  } else {
    walk.rows = rows_of(qubo, layout);
  }
  walk.tenure = tenure.low;
  walk.tenure_spread = tenure.spread;
  const std::size_t ring = std::bit_ceil(std::size_t{tenure.low} + tenure.spread + 1);
  walk.ring_mask = static_cast<std::uint32_t>(ring - 1);
  slice_ = std::max<std::uint64_t>(1, kEntriesPerSlice / walk.stride);

  const std::size_t part = walk.stride * static_cast<std::size_t>(kernels_.field_bytes);
  const std::size_t groups = padded(kernels_.group_bytes(n));
  const std::size_t ints = padded((ring + n) * sizeof(std::int32_t));
  spot_bytes_ = 2 * part;
  memory_.reset(::operator new((slots + 2) * spot_bytes_ + part + groups + ints, kAlignment));
  char* at = static_cast<char*>(memory_.get());
  const auto take = [&at](std::size_t bytes) { return std::exchange(at, at + bytes); };
  const auto take_spot = [&] {
    char* const costs = take(part);
    return Spot{costs, take(part)};
  };
  for (Slot& slot : slots_) slot.spot = take_spot();
  walk.best = take_spot();
  spare_ = take_spot();
  walk.held = take(part);
  walk.groups = take(groups);
  walk.released = reinterpret_cast<std::int32_t*>(take(ints));
  walk.next = walk.released + ring;
}

std::int64_t Tabu::set(std::size_t slot, const std::uint32_t* words) {
  walk_.here = slots_[slot].spot;
  kernels_.begin(walk_, words);
  return slots_[slot].energy = walk_.energy;
}

void Tabu::copy(std::size_t slot, std::size_t other) {
  std::memcpy(slots_[slot].spot.costs, slots_[other].spot.costs, spot_bytes_);
  slots_[slot].energy = slots_[other].energy;
}

std::int64_t Tabu::flip(std::size_t slot, const std::vector<std::int32_t>& variables) {
  walk_.here = slots_[slot].spot;
  walk_.energy = slots_[slot].energy;
  kernels_.flip(walk_, variables.data(), variables.size());
  return slots_[slot].energy = walk_.energy;
}

std::int64_t Tabu::search(std::size_t slot, SweepKey tenures, std::uint64_t patience, std::uint64_t max_moves,
                          std::int64_t target, Control& control) {
  walk_.here = slots_[slot].spot;
  walk_.energy = slots_[slot].energy;
  walk_.key0 = tenures.k0;
  walk_.key1 = tenures.k1;
  walk_.pending = -1;
  kernels_.start(walk_);
  do {
    const bool ended = kernels_.search(walk_, {std::min(max_moves, walk_.moves + slice_), patience, target});
    if (ended) break;
  } while (walk_.moves < max_moves && !control.stop());
  moves_ += walk_.moves;
  slots_[slot] = {walk_.best, walk_.best_energy};
  walk_.best = walk_.here;
  return slots_[slot].energy;
}

void Tabu::words(std::size_t slot, std::uint32_t* out) const { kernels_.words(walk_, slots_[slot].spot, out); }

std::int64_t integer_target(const Qubo& qubo, std::optional<double> target) {
  constexpr double kFar = 4e18;
  if (!target) return std::numeric_limits<std::int64_t>::min();
  const double scaled = (*target - qubo.view().offset) * qubo.scale();
  // An exact image may miss a whole number by the rounding of this very product.
  const double slack = qubo.exact() ? 1e-9 * std::max(1.0, std::fabs(scaled)) : 0;
  const double whole = std::floor(scaled + std::min(slack, 0.5));
  if (whole >= kFar) return std::numeric_limits<std::int64_t>::max();
  return whole <= -kFar ? std::numeric_limits<std::int64_t>::min() : static_cast<std::int64_t>(whole);
}

Reads tabu(const Qubo& qubo, const TabuOptions& options, Control& control) {
  const double begin_seconds = control.seconds();
  const std::size_t n = qubo.size(), num_reads = options.num_reads;
  const std::int64_t target = integer_target(qubo, options.target_energy);
  Reads reads;
  reads.layout = options.layout ? *options.layout : choose_tabu_layout(qubo);
  reads.states.resize(num_reads * n);
  reads.energies.resize(num_reads);
  reads.flips.assign(num_reads, 0);
  std::vector<std::int64_t> best(num_reads, std::numeric_limits<std::int64_t>::max());
  std::vector<std::uint8_t> walked(num_reads);

  const auto walk = [&](std::size_t read, std::uint64_t round) {
    Tabu search(qubo, reads.layout, options.tenure, 1);
    Words words(words_of(n));
    std::vector<std::uint8_t> state(n);
    const std::uint64_t start = read + (round << 32);  // later rounds begin where no read of the first one does
    if (options.initial_states != nullptr && round == 0) {
      std::copy_n(options.initial_states + read * n, n, state.begin());
    } else {
      random_state(options.seed, start, n, state.data());
    }
    pack(state.data(), n, words.data());
    search.set(0, words.data());
    search.search(0, sweep_key(read_key(options.seed ^ stream::tenure, start), 0), options.patience, options.max_moves,
                  target, control);
    reads.flips[read] += search.moves();
    walked[read] = 1;
    if (search.energy(0) >= best[read]) return;
    best[read] = search.energy(0);
    search.words(0, words.data());
    unpack(words.data(), n, reads.states.data() + read * n);
    energies(qubo.view(), reads.states.data() + read * n, 1, reads.energies.data() + read);
  };

  const std::size_t blocks = (num_reads + kReadsPerGeneration - 1) / kReadsPerGeneration;
  for (std::size_t generation = 0; options.until_stopped || generation < blocks; ++generation) {
    const std::uint64_t round = generation / blocks;
    const std::size_t first = generation % blocks * kReadsPerGeneration;
    const std::size_t count = std::min(kReadsPerGeneration, num_reads - first);
    parallel_for(count, options.threads, control, [&](std::size_t r) { walk(first + r, round); });
    if (generation == 0 && !walked[0]) walk(0, 0);
    reads.stopped = control.reason();
    const bool whole = reads.stopped == StopReason::none;
    // What a stop cut short counts only where there is nothing else, or where a read merely got better.
    if (round == 0 && (whole || generation == 0)) {
      const auto from = walked.begin() + static_cast<std::ptrdiff_t>(first);
      reads.count += static_cast<std::size_t>(std::find(from, from + static_cast<std::ptrdiff_t>(count), 0) - from);
    }
    const double lowest =
        *std::min_element(reads.energies.begin(), reads.energies.begin() + static_cast<std::ptrdiff_t>(reads.count));
    if (options.trace) reads.trace.push_back(lowest);
    reads.target_reached = options.target_energy && lowest <= *options.target_energy;
    if (!whole) break;
    ++reads.generations;
    if (options.report)
      control.report(std::min(1.0, static_cast<double>(reads.generations) / static_cast<double>(blocks)));
    if (reads.target_reached) break;
  }
  reads.states.resize(reads.count * n);
  reads.energies.resize(reads.count);
  reads.flips.resize(reads.count);
  reads.search_seconds = control.seconds() - begin_seconds;
  return reads;
}

}  // namespace isinglass
