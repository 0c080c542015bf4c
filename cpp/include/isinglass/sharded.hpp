// Packing of pools of millions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isinglass/bounds.hpp"
#include "isinglass/control.hpp"
#include "isinglass/greedy.hpp"
#include "isinglass/packing.hpp"

namespace isinglass {

struct ShardOptions {
  std::size_t shards = 1;
  std::uint64_t seed = 0;
  int threads = 1;  // no answer depends on it
};

/// Greedy+Max on each of several random shards of the items, and on what those picked together; the best of all
/// (Mirrokni, Zadimoghaddam 2015, "Randomized composable core-sets for distributed submodular maximization"; for a
/// knapsack Yaroslavtsev, Zhou, Avdiukhin 2020). Every shard sees the whole objective, only its candidates are fewer,
/// so values compare and the best is what it says. The bound is of the whole problem: one pass over all items for each
/// prefix of the answer that it looks at.
Packing sharded(const PackingProblem& problem, const ShardOptions& options, CertificateLevel certificate,
                Control& control);

}  // namespace isinglass
