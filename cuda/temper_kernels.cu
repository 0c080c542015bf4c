#include "temper_kernels.hpp"
#include "warp_walk.hpp"

namespace isinglass::cuda {
namespace {

/// What follows a sweep, by the lanes of one warp.
ISINGLASS_DEVICE_CALL void move_temperatures(TemperShared& shared, std::uint64_t seed, std::uint64_t read,
                                             std::uint32_t sweep, std::uint32_t all_sweeps) {
  const std::uint32_t rung = sweep % 2 + 2 * lane_index();
  if (rung + 1 < shared.ladder.rungs) shared.ladder.exchange(seed, read, sweep, rung, shared.energy);
  sync_warp();
  if (lane_index() == 0) {
    shared.ladder.move_after(sweep, all_sweeps);
    shared.ladder.temperatures_of_replicas(shared.t2);
  }
}

template <unsigned kBits, unsigned kBlocks>
ISINGLASS_DEVICE void temper(const TemperArgs& args) {
  const TemperRead read = args.reads[block_index()];
  const TemperProblem& problem = args.problems[read.problem];
  ReadRecord& record = args.records[block_index()].replicas[warp_index()];
  TemperEnd& end = args.ends[block_index()];
  TemperShared& shared = *shared_arena<TemperShared>();
  const unsigned replica = warp_index();
  const bool first_thread = thread_index() == 0;
  using Rows = PackedRows<kBits, kBlocks>;
  const std::uint32_t* rows = args.rows + problem.rows;
  if constexpr (kBits < 32) {
    auto* const in_shared = shared_arena<std::uint32_t>(kTemperRows);
    copy_to_shared(in_shared, rows, problem.n * Rows::kWords * kWarp * sizeof(std::uint32_t));
    rows = in_shared;
  }
  if (first_thread) {
    if (args.begin) {
      shared.ladder.begin(problem.temperatures, rungs_of(problem.n));
      end.over = false;
    } else {
      shared.ladder = end.ladder;
    }
    shared.ladder.temperatures_of_replicas(shared.t2);
  }
  sync_block();
  bool over = end.over;
  if (over && !args.end) return;

  const std::uint64_t number = read.read * kLadderReplicas + replica;
  WarpWalk<Rows, kBlocks> walk;
  walk.rows = {rows};
  walk.linear = args.linear + problem.linear;
  walk.n = problem.n;
  walk.flips = 0;
  if (!args.begin) {
    walk.resume(record);
  } else if (args.starts != nullptr) {
    walk.begin_given(args.starts + block_index() * kMostBlocks);
  } else {
    walk.begin_random(problem.seed, number);
  }

  const ReadKey key = read_key(problem.seed, number);
  for (std::uint32_t k = 0; k < args.num_sweeps && !over; ++k) {
    const std::uint32_t sweep = args.first_sweep + k;
    walk.template sweep<false>(sweep_key(key, sweep), shared.t2[replica]);
    walk.note_best();
    if (lane_index() == 0) {
      shared.energy[replica] = walk.energy;
      shared.best[replica] = walk.best;
    }
    sync_block();
    if (replica == 0) move_temperatures(shared, problem.seed, read.read, sweep, args.all_sweeps);
    if ((sweep + 1) % kSweepsPerRound == 0 || sweep + 1 == args.all_sweeps) {
      std::int64_t best = shared.best[0];
      for (unsigned r = 1; r < kLadderReplicas; ++r) best = shared.best[r] < best ? shared.best[r] : best;
      over = static_cast<double>(best) / problem.scale + problem.offset <= problem.target;
    }
    sync_block();
  }

  if (args.end) walk.quench();
  walk.pause(record, args.begin);
  if (args.end) {
    if (lane_index() == 0) {
      shared.energy[replica] = walk.energy;
      shared.flips[replica] = record.flips;
    }
    sync_block();
    unsigned lowest = 0;
    std::uint64_t flips = shared.flips[0];
    for (unsigned r = 1; r < kLadderReplicas; ++r) {
      if (shared.energy[r] < shared.energy[lowest]) lowest = r;
      flips += shared.flips[r];
    }
    if (replica == lowest && lane_index() == 0) {
      end.flips = flips;
      ISINGLASS_UNROLL
      for (unsigned b = 0; b < kMostBlocks; ++b) end.state[b] = b < kBlocks ? walk.state[b < kBlocks ? b : 0] : 0;
    }
  }
  if (first_thread) {
    end.ladder = shared.ladder;
    end.over = over;
  }
}

}  // namespace

#define ISINGLASS_TEMPER(bits, blocks) \
  ISINGLASS_KERNEL(temper_##bits##x##blocks, TemperArgs, kTemperThreads) { temper<bits, blocks>(args); }
#define ISINGLASS_TEMPERS(bits) \
  ISINGLASS_TEMPER(bits, 1)     \
  ISINGLASS_TEMPER(bits, 2)     \
  ISINGLASS_TEMPER(bits, 3)     \
  ISINGLASS_TEMPER(bits, 4)     \
  ISINGLASS_TEMPER(bits, 5)     \
  ISINGLASS_TEMPER(bits, 8)

ISINGLASS_TEMPERS(8)
ISINGLASS_TEMPERS(16)
ISINGLASS_TEMPERS(32)

const Kernel& temper_kernel(RowShape shape) {
  static const Kernel* const kernels[3][6] = {
      {&temper_8x1, &temper_8x2, &temper_8x3, &temper_8x4, &temper_8x5, &temper_8x8},
      {&temper_16x1, &temper_16x2, &temper_16x3, &temper_16x4, &temper_16x5, &temper_16x8},
      {&temper_32x1, &temper_32x2, &temper_32x3, &temper_32x4, &temper_32x5, &temper_32x8}};
  return *kernels[shape.bits / 16][shape.blocks <= 5 ? shape.blocks - 1 : 5];
}

}  // namespace isinglass::cuda
