#include "fold_kernels.hpp"
#include "kernel.hpp"

namespace isinglass::cuda {
namespace {

/// visit(u, v, Q[u, v], Q[v, u]) for the lane's variable v = 32 block + lane and all u, ascending; zeros for v >= n.
/// The row of v is read as part of a square, so that both come by whole lines.
template <class T, class Visit>
ISINGLASS_DEVICE void for_couplings(const IntegerMatrix& matrix, Visit visit) {
  constexpr std::uint32_t kRow = kWarp + 1;
  const auto* const entries = static_cast<const T*>(matrix.entries);
  T* const square = shared_arena<T>();
  const std::uint32_t first = block_index() * kWarp, lane = lane_index(), v = first + lane, n = matrix.n;
  for (std::uint32_t top = 0; top < n; top += kWarp) {
    for (std::uint32_t r = 0; r < kWarp; ++r) {
      const bool inside = first + r < n && top + lane < n;
      square[r * kRow + lane] = inside ? entries[std::size_t{first + r} * n + top + lane] : T{0};
    }
    sync_warp();
    for (std::uint32_t k = 0; k < kWarp && top + k < n; ++k) {
      const T there = v < n ? entries[std::size_t{top + k} * n + v] : T{0};
      visit(top + k, v, std::int64_t{there}, std::int64_t{square[lane * kRow + k]});
    }
    sync_warp();
  }
}

template <class Visit>
ISINGLASS_DEVICE void for_any_couplings(const IntegerMatrix& matrix, Visit visit) {
  if (matrix.bytes == 1) {
    for_couplings<std::int8_t>(matrix, visit);
  } else if (matrix.bytes == 2) {
    for_couplings<std::int16_t>(matrix, visit);
  } else {
    for_couplings<std::int32_t>(matrix, visit);
  }
}

ISINGLASS_DEVICE std::int64_t common_divisor(std::int64_t a, std::int64_t b) {
  while (b != 0) {
    const std::int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

template <class Row>
ISINGLASS_DEVICE std::int64_t twice_the_energy(const ReadEnergiesArgs& args, const std::uint32_t* state) {
  const auto is_on = [&](std::uint32_t i) { return state[i / kWarp] >> i % kWarp & 1; };
  const LargeModel& model = args.model;
  std::int64_t sum = 0;
  for (std::uint32_t i = warp_index(); i < model.n; i += warps_in_block()) {
    if (!is_on(i)) continue;
    const Row* const row = static_cast<const Row*>(model.rows) + std::size_t{i} * model.stride;
    if (lane_index() == 0) sum += 2 * std::int64_t{model.linear[i]};
    for (std::uint32_t j = lane_index(); j < model.n; j += kWarp) sum += is_on(j) ? std::int64_t{row[j]} : 0;
  }
  return sum;
}

}  // namespace

ISINGLASS_KERNEL(fold_measure, FoldArgs, kWarp) {
  FoldSummary mine{};
  for_any_couplings(args.matrix, [&](std::uint32_t u, std::uint32_t v, std::int64_t there, std::int64_t back) {
    if (u == v) {
      mine.linear = there;
      return;
    }
    const std::int64_t w = there + back, size = w < 0 ? -w : w;
    if (w == 0) return;
    (w > 0 ? mine.high : mine.low) += w;
    mine.largest = size > mine.largest ? size : mine.largest;
    if (mine.granule != 1) mine.granule = common_divisor(size, mine.granule);
    mine.pairs += u < v;
  });
  const std::uint32_t v = block_index() * kWarp + lane_index();
  if (v < args.matrix.n) args.summaries[v] = mine;
}

ISINGLASS_KERNEL(fold_pack, PackArgs, kWarp) {
  double squares = 0;
  for_any_couplings(args.matrix, [&](std::uint32_t u, std::uint32_t v, std::int64_t there, std::int64_t back) {
    const std::int64_t w = u == v ? 0 : (there + back) / args.granule;
    const std::size_t at = std::size_t{u} * args.stride + v;
    if (args.row_bytes == 1) {
      static_cast<std::int8_t*>(args.rows)[at] = static_cast<std::int8_t>(w);
    } else if (args.row_bytes == 2) {
      static_cast<std::int16_t*>(args.rows)[at] = static_cast<std::int16_t>(w);
    } else {
      static_cast<std::int32_t*>(args.rows)[at] = static_cast<std::int32_t>(w);
    }
    squares += static_cast<double>(w) * static_cast<double>(w);
  });
  const std::uint32_t v = block_index() * kWarp + lane_index();
  if (v < args.matrix.n) args.square_sums[v] = squares;
}

ISINGLASS_KERNEL(read_energies, ReadEnergiesArgs, kEnergyThreads) {
  auto* const sum = shared_arena<std::int64_t>();
  const std::uint32_t* const state = args.states + std::size_t{block_index()} * ((args.model.n + kWarp - 1) / kWarp);
  if (thread_index() == 0) *sum = 0;
  sync_block();
  const std::int64_t mine = warp_sum(args.row_bytes == 1   ? twice_the_energy<std::int8_t>(args, state)
                                     : args.row_bytes == 2 ? twice_the_energy<std::int16_t>(args, state)
                                                           : twice_the_energy<std::int32_t>(args, state));
  if (lane_index() == 0) atomic_add(sum, mine);
  sync_block();
  if (thread_index() == 0) args.energies[block_index()] = *sum / 2;
}

}  // namespace isinglass::cuda
