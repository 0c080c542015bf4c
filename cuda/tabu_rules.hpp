// What every tabu search on a device is told, and where it stands.
#pragma once

#include <cstdint>

namespace isinglass::cuda {

/// What a search is told. Of the draws of the tenures, `keys` is the key.
struct TabuRules {
  std::uint64_t patience;
  std::uint64_t max_moves;
  std::int64_t target;
  std::uint32_t tenure, spread;
};

/// Where a search stands between two launches, apart from its state, its best one and its holds.
struct TabuProgress {
  std::int64_t energy, best_energy;
  std::uint64_t moves, since;
};

}  // namespace isinglass::cuda
