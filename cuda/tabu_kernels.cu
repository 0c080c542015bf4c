#include "tabu_kernels.hpp"

namespace isinglass::cuda {
namespace {

template <class Row, unsigned kSlots>
ISINGLASS_DEVICE void search_reads(const TabuArgs& args) {
  const TabuTask task = args.tasks[block_index()];
  const SmallModel model = args.models[task.model];
  const TabuRules rules = args.rules[task.model];
  const std::uint64_t seed = args.seeds[task.model];
  WarpCosts<Row, kSlots> walk(rows_of<Row, kSlots>(model), model.linear, model.n);
  for (unsigned r = warp_index(); r < task.reads; r += warps_in_block()) {
    const std::size_t read = task.first_read + r, words = task.first_word + std::size_t{kSlots} * r;
    if (args.resume && args.ended[read] != 0) continue;
    const std::uint64_t start = args.starts[read];
    const SweepKey keys = sweep_key(read_key(seed ^ stream::tenure, start), 0);
    const std::uint32_t* const from = args.resume ? args.here : task.given != 0 ? args.given : nullptr;
    const std::int64_t energy = from != nullptr
                                    ? walk.begin([&](unsigned k) { return from[words + k]; })
                                    : walk.begin_random(sweep_key(read_key(seed ^ stream::initial_state, start), 0));
    WarpTabu<Row, kSlots> search(walk, energy);
    if (args.resume) search.restore(args.progress[read], args.best + words, args.holds + kWarp * words);
    sync_warp();
    const bool ended = search.search(rules, keys, args.moves);
    search.save(args.progress[read], args.best + words, args.holds + kWarp * words);
    ISINGLASS_UNROLL
    for (unsigned k = 0; k < kSlots; ++k) {
      const std::uint32_t word = walk.word(k);
      if (lane_index() == 0) args.here[words + k] = word;
    }
    if (lane_index() == 0) args.ended[read] = ended;
  }
}

}  // namespace

#define ISINGLASS_TABU(Row, slots) \
  ISINGLASS_KERNEL(tabu_##Row##_##slots, TabuArgs, 32 * kTabuWarps) { search_reads<std::Row, slots>(args); }
#define ISINGLASS_TABU_OF(Row) \
  ISINGLASS_TABU(Row, 2)       \
  ISINGLASS_TABU(Row, 4)       \
  ISINGLASS_TABU(Row, 5)       \
  ISINGLASS_TABU(Row, 8)
ISINGLASS_TABU_OF(int8_t)
ISINGLASS_TABU_OF(int16_t)
ISINGLASS_TABU_OF(int32_t)

const Kernel* const tabu_kernels[] = {
    &tabu_int8_t_2,  &tabu_int8_t_4,  &tabu_int8_t_5,  &tabu_int8_t_8,  &tabu_int16_t_2, &tabu_int16_t_4,
    &tabu_int16_t_5, &tabu_int16_t_8, &tabu_int32_t_2, &tabu_int32_t_4, &tabu_int32_t_5, &tabu_int32_t_8,
};

}  // namespace isinglass::cuda
