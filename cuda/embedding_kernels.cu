// The numbers of cpp/src/embeddings.cpp: each similarity is summed over the dimensions in their order by the fused
// multiply-add, each sum of a row in 16 lanes (column mod 16), ascending, that are added as a tree.
#include <cmath>

#include "embedding_kernels.hpp"
#include "lanes.hpp"

namespace isinglass::cuda {

ISINGLASS_KERNEL(unit_rows, UnitRowsArgs, kUnitThreads) {
  constexpr float kLeastEntry = 0x1p-60f;
  const std::uint32_t item = block_index() * kUnitItems + thread_index() / kLanes;
  const std::uint32_t group = item / kGroupItems, panel = item / kLanes, place = item % kLanes;
  const std::int32_t id = args.ids[item];
  const bool real = id >= 0;
  const float* const row = args.rows + static_cast<std::size_t>(real ? id : 0) * args.d;
  double square = 0;
  for (std::uint32_t k = lane_of_half(); real && k < args.d; k += kLanes) {
    square += static_cast<double>(row[k]) * static_cast<double>(row[k]);
  }
  const double norm = std::sqrt(half_sum(square));
  const bool directed = norm > 0, finite = norm - norm == 0;
  const double factor = directed ? 1 / norm : 0;
  for (std::uint32_t k = lane_of_half(); k < args.d; k += kLanes) {
    float entry = real ? static_cast<float>(static_cast<double>(row[k]) * factor) : 0.0f;
    if (std::fabs(entry) < kLeastEntry || !directed) entry = 0;
    args.groups[(static_cast<std::size_t>(group) * args.d + k) * kGroupItems + place * kGroupPanels +
                panel % kGroupPanels] = entry;
    if (args.panels != nullptr && panel < args.num_panels)
      args.panels[(static_cast<std::size_t>(panel) * args.d + k) * kLanes + place] = entry;
  }
  if (lane_of_half() == 0) args.self[item] = finite ? (directed ? 1.0f : 0.0f) : static_cast<float>(norm - norm);
}

namespace {

struct alignas(16) Four {
  float at[4];
};
constexpr std::uint32_t kPerThread = kSumDepth * kGroupItems / 4 / kSumThreads;  // Fours of a chunk

/// A chunk of a group, `depth` of its dimensions from `k` on, on its way to shared memory; the rest of it is zeros.
struct Chunk {
  Four part[kPerThread];

  ISINGLASS_DEVICE void load(const float* group, std::uint32_t k, std::uint32_t d) {
    ISINGLASS_UNROLL
    for (std::uint32_t i = 0; i < kPerThread; ++i) {
      const std::uint32_t at = i * kSumThreads + thread_index();
      if (k + at * 4 / kGroupItems < d) {
        part[i] = reinterpret_cast<const Four*>(group + static_cast<std::size_t>(k) * kGroupItems)[at];
      } else {
        part[i] = Four{};
      }
    }
  }
  ISINGLASS_DEVICE void store(Four* to) const {
    ISINGLASS_UNROLL
    for (std::uint32_t i = 0; i < kPerThread; ++i) to[i * kSumThreads + thread_index()] = part[i];
  }
};

/// All products of two groups: sum[p][q] of thread (row, column) is that of the items in place `row` of panel p and
/// place `column` of panel q. Thread 16 row + column of a block of 256.
ISINGLASS_DEVICE void multiply(const float* row_group, const float* column_group, std::uint32_t d,
                               float (&sum)[kGroupPanels][kGroupPanels]) {
  const std::uint32_t column = thread_index() % kLanes, row = thread_index() / kLanes;
  Four* const of_rows = shared_arena<Four>();
  Four* const of_columns = of_rows + kSumDepth * kGroupItems / 4;
  Chunk rows, columns;
  rows.load(row_group, 0, d);
  columns.load(column_group, 0, d);
  for (std::uint32_t k = 0; k < d; k += kSumDepth) {
    sync_block();  // all are done with the chunk before
    rows.store(of_rows);
    columns.store(of_columns);
    sync_block();  // the chunk is there
    if (k + kSumDepth < d) {
      rows.load(row_group, k + kSumDepth, d);
      columns.load(column_group, k + kSumDepth, d);
    }
    // Zeros past the last dimension add nothing: sum + 0 * 0 is the sum.
    ISINGLASS_UNROLL
    for (std::uint32_t t = 0; t < kSumDepth; ++t) {
      const Four a[2] = {of_rows[t * 32 + row * 2], of_rows[t * 32 + row * 2 + 1]};
      const Four b[2] = {of_columns[t * 32 + column * 2], of_columns[t * 32 + column * 2 + 1]};
      ISINGLASS_UNROLL
      for (std::uint32_t p = 0; p < kGroupPanels; ++p) {
        ISINGLASS_UNROLL
        for (std::uint32_t q = 0; q < kGroupPanels; ++q) {
          sum[p][q] = fused_multiply_add(a[p / 4].at[p % 4], b[q / 4].at[q % 4], sum[p][q]);
        }
      }
    }
  }
}

ISINGLASS_DEVICE float clipped(float product) {
  const float similarity = product > 0 ? product : 0.0f;
  return similarity < 1 ? similarity : 1.0f;
}

}  // namespace

ISINGLASS_KERNEL(cosines_of_groups, CosinesArgs, kSumThreads) {
  const std::uint32_t mine = args.first + block_index() / args.num_columns, other = block_index() % args.num_columns;
  const std::size_t size = static_cast<std::size_t>(args.d) * kGroupItems;
  float sum[kGroupPanels][kGroupPanels] = {};
  multiply(args.rows + mine * size, args.columns + other * size, args.d, sum);
  const std::uint32_t j = other * kGroupItems + thread_index() % kLanes;
  const std::uint32_t i = mine * kGroupItems + thread_index() / kLanes;
  ISINGLASS_UNROLL
  for (std::uint32_t p = 0; p < kGroupPanels; ++p) {
    ISINGLASS_UNROLL
    for (std::uint32_t q = 0; q < kGroupPanels; ++q) {
      if (i + p * kLanes < args.n && j + q * kLanes < args.m) {
        args.out[static_cast<std::size_t>(i + p * kLanes) * args.m + j + q * kLanes] = clipped(sum[p][q]);
      }
    }
  }
}

ISINGLASS_KERNEL(row_sums, RowSumsArgs, kSumThreads) {
  const std::uint32_t mine = block_index() % args.num_rows, range = block_index() / args.num_rows;
  const std::uint32_t column = thread_index() % kLanes, row = thread_index() / kLanes;
  const std::size_t size = static_cast<std::size_t>(args.d) * kGroupItems;
  const float* const row_group = args.rows + mine * size;
  const std::uint32_t whole = args.num_columns - range * args.range;  // groups from this range on
  const std::uint32_t end = whole < args.range ? whole : args.range, last = args.first + args.count;

  // Thread (row, column) sums lane `column` of the item in place `row` of each of the group's panels.
  double lane[kGroupPanels];
  const std::size_t items = static_cast<std::size_t>(block_index()) * kGroupItems + row;
  double* const lanes = args.lanes + items * kLanes + column;
  ISINGLASS_UNROLL
  for (std::uint32_t p = 0; p < kGroupPanels; ++p) lane[p] = args.first == 0 ? 0 : lanes[p * kLanes * kLanes];

  for (std::uint32_t step = args.first; step < last && step < end; ++step) {
    const std::uint32_t g = range * args.range + step;
    float sum[kGroupPanels][kGroupPanels] = {};
    multiply(row_group, args.columns + g * size, args.d, sum);
    const std::int32_t* const row_id = args.row_ids + mine * kGroupItems + row;
    const std::int32_t* const column_id = args.column_ids + g * kGroupItems + column;
    ISINGLASS_UNROLL
    for (std::uint32_t p = 0; p < kGroupPanels; ++p) {
      ISINGLASS_UNROLL
      for (std::uint32_t q = 0; q < kGroupPanels; ++q) {
        float similarity = clipped(sum[p][q]);
        const std::int32_t id = row_id[p * kLanes];
        if (id == column_id[q * kLanes] && id >= 0) similarity = args.self[mine * kGroupItems + p * kLanes + row];
        lane[p] += static_cast<double>(similarity);
      }
    }
  }

  ISINGLASS_UNROLL
  for (std::uint32_t p = 0; p < kGroupPanels; ++p) {
    lanes[p * kLanes * kLanes] = lane[p];
    const double total = half_sum(lane[p]);
    if (last >= end && column == 0) args.sums[items + p * kLanes] = total;
  }
}

ISINGLASS_KERNEL(excess_sums, ExcessArgs, 32) {
  const std::uint32_t item = block_index() * 2 + half_index();
  const bool real = item < args.count;
  const float* const row = args.similarities + static_cast<std::size_t>(real ? item : 0) * args.m;
  const std::int32_t own = real ? args.own[item] : -1;
  double excess = 0;
  for (std::uint32_t b = 0; real && b < args.num_panels; ++b) {
    const auto column = static_cast<std::uint32_t>(args.panels[b]) * kLanes + lane_of_half();
    if (column >= args.m) continue;
    const float similarity = static_cast<std::int32_t>(column) == own ? args.self[item] : row[column];
    const double more = static_cast<double>(similarity) - args.floor[column];
    excess += more > 0 ? more : 0;
  }
  const double sum = half_sum(excess);
  if (real && lane_of_half() == 0) args.sums[item] = sum;
}

}  // namespace isinglass::cuda
