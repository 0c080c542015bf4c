// How a pool of memetic search is filled from its reads and bred, whoever walks the searches: the CPU one child at a
// time, a device one child of many pools at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isinglass/memetic.hpp"
#include "isinglass/pools.hpp"
#include "isinglass/random.hpp"
#include "isinglass/tabu.hpp"

namespace isinglass {

/// Groups of variables in which two states differ, such that strong couplings are within groups: a state that takes
/// whole groups from the one and the rest from the other breaks few of them. With all couplings, groups do not see each
/// other at all, and the best choice for each is the best of all children (partition crossover: D. Whitley 2009).
class Clusters {
 public:
  explicit Clusters(const Qubo& qubo) : qubo_(qubo), layout_(choose_tabu_layout(qubo)), place_(qubo.size(), -1) {}

  bool affordable(const std::vector<std::int32_t>& differing) const;

  /// Joined by the strongest couplings between them, ties by the hash: `quarters` for every four variables, 0: by all.
  const std::vector<std::vector<std::int32_t>>& of(const std::vector<std::int32_t>& differing, std::uint32_t quarters,
                                                   SweepKey key);

 private:
  struct Link {
    std::int32_t strength;
    std::uint32_t tie;
    std::int32_t first, second;
    bool operator<(const Link& other) const;
  };
  void link(const std::vector<std::int32_t>& differing, std::size_t first, std::size_t second, std::int32_t weight,
            SweepKey key);
  void link_along_rows(const std::vector<std::int32_t>& differing, SweepKey key);
  /// Of a dense model: a look at every pair is less than one at every coupling of them.
  template <class T>
  void link_pairs(const DenseRows<T>& rows, const std::vector<std::int32_t>& differing, SweepKey key);
  std::int32_t root(std::int32_t k);

  const Qubo& qubo_;
  Layout layout_;
  std::vector<std::int32_t> place_, root_, index_;
  std::vector<Link> links_;
  std::vector<std::vector<std::int32_t>> groups_;
};

/// Pool number p, empty at first. Its searcher has a slot for every member and one for a child.
class Breeder {
 public:
  Breeder(const Qubo& qubo, const MemeticOptions& options, const PoolPlan& plan, std::size_t p, Pool& pool);

  /// The pool takes the best distinct ones of what was found and, the first pool, of the caller's states.
  void fill(std::vector<Member> found, Tabu& searcher);

  /// Whether the pool has nothing more to give, or has reached the target.
  bool spent() const;
  /// The next child of two members, in the slot of the searcher that is returned.
  std::size_t cross(Tabu& searcher);
  /// What its search draws tenures with: this pool's number, in the place of a read, and the number of the child.
  std::uint64_t number() const { return p_; }
  std::uint32_t generation() const { return static_cast<std::uint32_t>(pool_.children - 1); }
  /// The best state of that search. It enters the pool, and the worst member of a full one leaves. `set`: the slot
  /// holds it.
  void take_in(std::int64_t energy, const std::uint32_t* words, bool set);

 private:
  void cross(Tabu& searcher, const Member& parent, const Member& other, SweepKey key);
  void note();

  const Qubo& qubo_;
  const MemeticOptions& options_;
  const PoolPlan& plan_;
  std::size_t p_;
  Pool& pool_;
  ReadKey crossing_;
  Clusters clusters_;
  std::size_t free_slot_;
  std::uint64_t failures_ = 0;
};

}  // namespace isinglass
