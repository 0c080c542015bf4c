// Greedy packing on the device: a warp a query.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver.hpp"
#include "isinglass/random.hpp"

namespace isinglass::cuda {

/// One packing problem, its arrays on the device. What an absent term needs is nullptr, its scale is 0.
struct PackingQuery {
  std::uint32_t n, targets;  // targets: columns of the rows, a multiple of 16
  std::uint32_t num_groups, num_terms, num_pinned;
  std::uint32_t max_items;  // at most n
  double relevance_scale, coverage_scale, representation_scale, diversity_scale, facility_scale;
  double slack;     // twice the largest rounding error of a gain
  double cheapest;  // least cost
  double budget;    // where costs share no granule
  std::int64_t integer_budget;

  const double* cost;                // (n,)
  const std::int64_t* integer_cost;  // (n,), or nullptr: the doubles decide
  const std::uint8_t* eligible;      // (n,)
  const std::int32_t* pinned;        // (num_pinned,)
  const double* relevance;           // (n,)
  const float* rows;                 // (n, targets)
  const double* degree;              // (n,): sums of rows
  const double* cap;                 // (targets,)
  const std::uint64_t* term_mask;    // (n,), or nullptr:
  const std::uint32_t* term_start;   // (n + 1,)
  const std::int32_t* term_list;
  const double* term_weight;  // (num_terms,)
  const std::int32_t* group;  // (n,)
};

/// States of the greedy run whose gains of all items are kept: its start, 4, 8, 16 ... picks, and its end. They are
/// what Greedy+Max and the online bound are made of.
inline constexpr std::uint32_t kRefreshAfter = 4;  // picks
inline constexpr std::uint32_t kMostSnapshots = 16;

struct PackingAnswer {
  std::uint32_t size;           // of the selection
  std::uint32_t num_snapshots;  // with the end
  std::uint32_t picks;          // of the greedy run
  std::uint32_t evaluations;    // gains that were computed
  double values[kMostSnapshots];
};

enum class PackingStage : std::uint32_t { greedy, max, filling, packed };

/// Where a query stands between two launches. What the set amounts to is not kept: it is made again of the selection.
struct PackingState {
  double largest[kMostSnapshots];  // gain in each snapshot
  double start_value;              // of the pinned items
  double prefix_value, best_value;
  PackingStage stage;
  std::uint32_t size, num_snapshots, evaluations;
  std::uint32_t last, prefix, known, best_size, best;  // of Greedy+Max
};

struct PackingArgs {
  const PackingQuery* queries;
  PackingAnswer* answers;   // one a query
  std::int32_t* selection;  // (queries, stride)
  double* gains;            // (queries, stride)
  double* snapshots;        // (queries, snapshots, stride)
  PackingState* states;     // one a query
  double* item_gains;       // (queries, 2, stride): newest gains, and queue; with the next two what lanes hold of items
  std::uint16_t* fresh_at;  // (queries, stride)
  std::uint8_t* flags;      // (queries, stride)
  std::uint32_t stride, num_snapshots;
  std::uint32_t most_work;  // gains and looks at the queue of one query, after which this launch leaves it
  bool plus_max;
  bool first;  // launch: states are not there yet
};

extern const Kernel packing_greedy;

/// Shared memory of one query, in the order in which the kernel lays it out.
struct PackingArena {
  std::size_t gain, queue, headroom, group_mass, group_root, nearest, covered, fresh_at, flags, bytes;

  static ISINGLASS_HOST_DEVICE PackingArena of(const PackingQuery& q) {
    PackingArena arena{};
    const auto place = [&](std::size_t bytes) {
      const std::size_t at = arena.bytes;
      arena.bytes += (bytes + 15) / 16 * 16;
      return at;
    };
    const std::size_t n = q.n, groups = q.diversity_scale > 0 ? q.num_groups : 0;
    const bool counts_terms = q.coverage_scale > 0 && q.term_mask == nullptr;
    arena.gain = place(8 * n);
    arena.queue = place(8 * n);
    arena.headroom = place(q.representation_scale > 0 ? 2 * 8 * q.targets : 0);
    arena.group_mass = place(2 * 8 * groups);
    arena.group_root = place(2 * 8 * groups);
    arena.nearest = place(q.facility_scale > 0 ? 2 * 4 * q.targets : 0);
    arena.covered = place(counts_terms ? 32 * 4 * ((q.num_terms + 31) / 32) : 0);
    arena.fresh_at = place(2 * n);
    arena.flags = place(n);
    return arena;
  }
};

}  // namespace isinglass::cuda
