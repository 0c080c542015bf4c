#include "isinglass/replicas.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>

#include "isinglass/random.hpp"

namespace isinglass {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::array kLayouts{Layout::lanes32,    Layout::lanes16, Layout::rows32,     Layout::rows32_of16,
                              Layout::rows32_of8, Layout::rows16,  Layout::rows16_of8, Layout::sparse};

bool is_lanes(Layout layout) { return layout == Layout::lanes32 || layout == Layout::lanes16; }

const LaneKernels& lane_kernels(Layout layout) {
  return layout == Layout::lanes16 ? move_kernels().lanes16 : move_kernels().lanes32;
}

const RowKernels& row_kernels(Layout layout) {
  const MoveKernels& kernels = move_kernels();
  switch (layout) {
    case Layout::rows32_of16:
      return kernels.rows32_of16;
    case Layout::rows32_of8:
      return kernels.rows32_of8;
    case Layout::rows16:
      return kernels.rows16;
    case Layout::rows16_of8:
      return kernels.rows16_of8;
    case Layout::sparse:
      return kernels.sparse;
    default:
      return kernels.rows32;
  }
}

std::size_t padded(std::size_t n) { return (n + 63) / 64 * 64; }

}  // namespace

std::string_view name(Layout layout) {
  constexpr std::array<std::string_view, kLayouts.size()> names{"lanes32",    "lanes16", "rows32",     "rows32_of16",
                                                                "rows32_of8", "rows16",  "rows16_of8", "sparse"};
  return names[static_cast<std::size_t>(layout)];
}

std::span<const Layout> all_layouts() { return kLayouts; }

Layout layout_named(std::string_view layout_name) {
  std::string expected;
  for (Layout layout : kLayouts) {
    if (name(layout) == layout_name) return layout;
    expected += (expected.empty() ? "" : ", ") + std::string(name(layout));
  }
  throw std::invalid_argument("layout must be one of auto, " + expected + ", got '" + std::string(layout_name) + "'");
}

std::string_view unfit(const Qubo& qubo, Layout layout) {
  const bool fields16 = layout == Layout::lanes16 || layout == Layout::rows16 || layout == Layout::rows16_of8;
  const bool rows16 = layout == Layout::rows32_of16;
  const bool rows8 = layout == Layout::rows32_of8 || layout == Layout::rows16_of8;
  if (fields16 && qubo.worst_field() > std::numeric_limits<std::int16_t>::max()) {
    return "a field may leave 16 bits";
  }
  if (rows16 && qubo.largest_coupling() > std::numeric_limits<std::int16_t>::max()) {
    return "a coupling does not fit 16 bits";
  }
  if (rows8 && qubo.largest_coupling() > std::numeric_limits<std::int8_t>::max()) {
    return "a coupling does not fit 8 bits";
  }
  return {};
}

std::size_t capacity(Layout layout) {
  return is_lanes(layout) ? static_cast<std::size_t>(lane_kernels(layout).lanes) : 1;
}

Layout choose_layout(const Qubo& qubo, std::size_t reads) {
  // Lanes pay for every neighbour of a variable that any of their reads flips, rows for every variable in each flip, so
  // what decides is the number of neighbours. Measured on dense, sparse and penalty models from 40 to 2000 variables.
  constexpr double kFewNeighbours32 = 110, kFewNeighbours16 = 150, kSparse = 0.15, kLanesWorthFilling = 0.25;
  const bool narrow = unfit(qubo, Layout::lanes16).empty();
  const Layout lanes = narrow && reads > capacity(Layout::lanes32) ? Layout::lanes16 : Layout::lanes32;
  const double filled = static_cast<double>(std::min(reads, capacity(lanes))) / static_cast<double>(capacity(lanes));
  const double density = qubo.density(), neighbours = density * static_cast<double>(qubo.size());
  const bool lanes_win =
      density <= kSparse || neighbours <= (lanes == Layout::lanes16 ? kFewNeighbours16 : kFewNeighbours32);
  if (lanes_win && filled >= kLanesWorthFilling) return lanes;
  if (density <= kSparse) return Layout::sparse;
  const bool bytes = qubo.size() >= 1000 && unfit(qubo, Layout::rows32_of8).empty();
  if (unfit(qubo, Layout::rows16).empty()) return bytes ? Layout::rows16_of8 : Layout::rows16;
  if (bytes) return Layout::rows32_of8;
  return unfit(qubo, Layout::rows32_of16).empty() ? Layout::rows32_of16 : Layout::rows32;
}

void random_state(std::uint64_t seed, std::uint64_t read, std::size_t n, std::uint8_t* state) {
  const SweepKey key = sweep_key(read_key(seed ^ stream::initial_state, read), 0);
  for (std::size_t i = 0; i < n; ++i) {
    state[i] = static_cast<std::uint8_t>(random_bits(key, static_cast<std::uint32_t>(i)) >> 31);
  }
}

void Replicas::Free::operator()(void* p) const { ::operator delete(p, kAlignment); }

Replicas::Replicas(const Qubo& qubo, Layout layout, std::uint64_t seed, std::uint64_t first_read, std::size_t count)
    : qubo_(qubo), seed_(seed), first_read_(first_read), count_(count), lanes_(is_lanes(layout)) {
  if (const std::string_view reason = unfit(qubo, layout); !reason.empty()) {
    throw std::invalid_argument("layout '" + std::string(name(layout)) +
                                "' cannot hold this model: " + std::string(reason));
  }
  const std::size_t n = qubo.size();
  std::size_t bytes;
  if (lanes_) {
    lane_kernels_ = &lane_kernels(layout);
    const auto lane_bytes = static_cast<std::size_t>(lane_kernels_->lanes * lane_kernels_->field_bytes);
    LaneWalk& walk = lane_walk_;
    walk.n = n;
    walk.linear = qubo.linear().data();
    walk.row_start = qubo.sparse_rows().start.data();
    walk.couplings = qubo.lane_couplings(lane_bytes).data();
    walk.worst_field = qubo.worst_field();
    walk.live = count == 32 ? 0xffffffffU : (1U << count) - 1;
    for (std::size_t lane = 0; lane < kMaxLanes; ++lane) {
      const ReadKey key = read_key(seed, first_read + lane);
      walk.key_a[lane] = key.a;
      walk.key_b[lane] = key.b;
      walk.flips[lane] = 0;
    }
    bytes = n * lane_bytes;
  } else {
    row_kernels_ = &row_kernels(layout);
    RowWalk& walk = row_walk_;
    walk.n = n;
    walk.stride = padded(n);
    walk.linear = qubo.linear().data();
    walk.rows = nullptr;
    if (layout == Layout::sparse) {
      walk.row_start = qubo.sparse_rows().start.data();
      walk.couplings = qubo.sparse_rows().entries.data();
    } else if (layout == Layout::rows32) {
      walk.rows = qubo.rows32().values.data();
    } else if (layout == Layout::rows32_of16 || layout == Layout::rows16) {
      walk.rows = qubo.rows16().values.data();
    } else {
      walk.rows = qubo.rows8().values.data();
    }
    const ReadKey key = read_key(seed, first_read);
    walk.key_a = key.a;
    walk.key_b = key.b;
    walk.flips = 0;
    bytes = walk.stride * static_cast<std::size_t>(row_kernels_->field_bytes);
  }
  bytes = padded(bytes);
  char* const memory = static_cast<char*>(::operator new(3 * bytes + 64, kAlignment));
  memory_.reset(memory);
  (lanes_ ? lane_walk_.fields : row_walk_.fields) = memory;
  (lanes_ ? lane_walk_.bits : row_walk_.bits) = memory + bytes;
  (lanes_ ? lane_walk_.best_bits : row_walk_.best_bits) = memory + 2 * bytes;
}

void Replicas::begin(const std::uint8_t* states) {
  lanes_ ? lane_kernels_->begin(lane_walk_, states) : row_kernels_->begin(row_walk_, states);
}

void Replicas::begin_random() {
  const std::size_t n = qubo_.size();
  std::vector<std::uint8_t> states(count_ * n);
  for (std::size_t r = 0; r < count_; ++r) random_state(seed_, first_read_ + r, n, states.data() + r * n);
  begin(states.data());
}

void Replicas::sweep(const SweepRun& run) {
  lanes_ ? lane_kernels_->sweep(lane_walk_, run) : row_kernels_->sweep(row_walk_, run);
}

void Replicas::sweep_each(std::uint32_t sweep, const float* t2) {
  if (lanes_) {
    std::memcpy(lane_walk_.lane_t2, t2, count_ * sizeof(float));
    lane_kernels_->sweep_each(lane_walk_, sweep);
  } else {
    row_kernels_->sweep(row_walk_, {sweep, 1, t2, nullptr, true});
  }
}

void Replicas::probe(const SweepRun& run, MoveCounts* counts) { move_kernels().probe(lane_walk_, run, counts); }

void Replicas::quench() { lanes_ ? lane_kernels_->quench(lane_walk_) : row_kernels_->quench(row_walk_); }

void Replicas::return_to_best() {
  bool lower = false;
  for (std::size_t r = 0; r < count_; ++r) lower |= best(r) < energy(r);
  if (!lower) return;
  std::vector<std::uint8_t> states(count_ * qubo_.size());
  end(true, states.data());
  begin(states.data());
}

void Replicas::end(bool best, std::uint8_t* states) const {
  lanes_ ? lane_kernels_->end(lane_walk_, best, states) : row_kernels_->end(row_walk_, best, states);
}

}  // namespace isinglass
