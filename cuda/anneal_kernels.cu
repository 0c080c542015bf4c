#include "anneal_kernels.hpp"
#include "warp_walk.hpp"

namespace isinglass::cuda {
namespace {

template <unsigned kBits, unsigned kBlocks>
ISINGLASS_DEVICE void anneal(const AnnealArgs& args) {
  const AnnealBlock block = args.blocks[block_index()];
  const AnnealProblem& problem = args.problems[block.problem];
  using Rows = PackedRows<kBits, kBlocks>;
  const std::uint32_t* rows = args.rows + problem.rows;
  if constexpr (kBits < 32) {
    auto* const shared = shared_arena<std::uint32_t>();
    copy_to_shared(shared, rows, problem.n * Rows::kWords * kWarp * sizeof(std::uint32_t));
    rows = shared;
    sync_block();
  }
  const std::uint32_t local = block.first + warp_index();
  if (local >= problem.reads) return;
  const std::uint64_t read = problem.first_read + local;
  ReadRecord& record = args.reads[problem.read + local];

  WarpWalk<Rows, kBlocks> walk;
  walk.rows = {rows};
  walk.linear = args.linear + problem.linear;
  walk.n = problem.n;
  walk.flips = 0;
  if (!args.begin) {
    walk.resume(record);
  } else if (args.starts != nullptr) {
    walk.begin_given(args.starts + problem.start + local * kMostBlocks);
  } else {
    walk.begin_random(problem.seed, read);
  }
  const ReadKey key = read_key(problem.seed, read);
  for (std::uint32_t k = 0; k < args.num_sweeps; ++k) {
    const std::uint32_t sweep = args.first_sweep + k;
    walk.template sweep<false>(sweep_key(key, sweep), args.t2[problem.t2 + sweep]);
    walk.note_best();
    if (args.trace != nullptr && lane_index() == 0) atomic_min(args.trace + problem.trace + sweep, walk.energy);
  }
  if (args.end && args.quench) walk.quench();
  walk.pause(record, args.begin);
}

}  // namespace

#define ISINGLASS_ANNEAL(bits, blocks) \
  ISINGLASS_KERNEL(anneal_##bits##x##blocks, AnnealArgs, kAnnealThreads) { anneal<bits, blocks>(args); }
#define ISINGLASS_ANNEALS(bits) \
  ISINGLASS_ANNEAL(bits, 1)     \
  ISINGLASS_ANNEAL(bits, 2)     \
  ISINGLASS_ANNEAL(bits, 3)     \
  ISINGLASS_ANNEAL(bits, 4)     \
  ISINGLASS_ANNEAL(bits, 5)     \
  ISINGLASS_ANNEAL(bits, 8)

ISINGLASS_ANNEALS(8)
ISINGLASS_ANNEALS(16)
ISINGLASS_ANNEALS(32)

const Kernel& anneal_kernel(RowShape shape) {
  static const Kernel* const kernels[3][6] = {
      {&anneal_8x1, &anneal_8x2, &anneal_8x3, &anneal_8x4, &anneal_8x5, &anneal_8x8},
      {&anneal_16x1, &anneal_16x2, &anneal_16x3, &anneal_16x4, &anneal_16x5, &anneal_16x8},
      {&anneal_32x1, &anneal_32x2, &anneal_32x3, &anneal_32x4, &anneal_32x5, &anneal_32x8}};
  return *kernels[shape.bits / 16][shape.blocks <= 5 ? shape.blocks - 1 : 5];
}

}  // namespace isinglass::cuda
