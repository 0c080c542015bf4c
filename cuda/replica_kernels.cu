#include "kernel.hpp"
#include "replica_kernels.hpp"

namespace isinglass::cuda {

ISINGLASS_KERNEL(exchange, ExchangeArgs, kWarp) {
  if (thread_index() != 0) return;
  Ladder& ladder = args.ladders[block_index()];
  std::uint32_t& over = args.over[block_index()];
  float* const t2 = args.t2_each + std::size_t{kReplicasOfRead} * block_index();
  if (args.begins) {
    ladder.begin(args.temperatures, args.rungs);
    over = 0;
  } else {
    if (over != 0) return;
    const ReplicaRecord* const records = args.records + std::size_t{kReplicasOfRead} * block_index();
    std::int64_t energy[kReplicasOfRead], best = records[0].best;
    for (std::uint32_t r = 0; r < kReplicasOfRead; ++r) {
      energy[r] = records[r].energy;
      best = records[r].best < best ? records[r].best : best;
    }
    for (std::size_t rung = args.sweep % 2; rung + 1 < ladder.rungs; rung += 2) {
      ladder.exchange(args.seed, args.first_read + block_index(), args.sweep, rung, energy);
    }
    ladder.move_after(args.sweep, args.all_sweeps);
    if ((args.sweep + 1) % kSweepsPerRound == 0) {
      over = static_cast<double>(best) / args.scale + args.offset <= args.target;
    }
  }
  ladder.temperatures_of_replicas(t2);
}

ISINGLASS_KERNEL(unpack_states, UnpackArgs, kUnpackThreads) {
  const KeptState kept = args.kept[block_index()];
  std::int8_t* const to = args.to + std::size_t{kept.row} * args.n;
  for (std::uint32_t i = thread_index(); i < args.n; i += block_size()) {
    const std::size_t at = args.by_variable ? std::size_t{kept.from / kWarp} * args.n + i
                                            : std::size_t{kept.from} * ((args.n + kWarp - 1) / kWarp) + i / kWarp;
    const std::uint32_t bit = args.by_variable ? kept.from % kWarp : i % kWarp;
    to[i] = static_cast<std::int8_t>(args.words[at] >> bit & 1);
  }
}

}  // namespace isinglass::cuda
