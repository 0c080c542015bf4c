// The pools of memetic search: what each is to be, and what is made of them in the end, whoever fills and breeds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isinglass/memetic.hpp"
#include "isinglass/schedule.hpp"
#include "isinglass/tabu.hpp"

namespace isinglass {

struct Member {
  std::int64_t energy;
  Words words;
  std::size_t slot;  // of the searcher
  bool set;          // the slot holds it

  bool operator<(const Member& other) const {
    return energy != other.energy ? energy < other.energy : words < other.words;
  }
};

struct Pool {
  std::size_t size = 0;         // of members, once it is full
  std::vector<Member> members;  // by energy, then bits
  std::vector<std::int64_t> trace;
  std::uint64_t children = 0, moves = 0;
  bool target_reached = false;
  bool whole = false;

  std::int64_t best() const { return members.front().energy; }
};

/// What pool number p is filled and bred by.
class PoolPlan {
 public:
  // Reads that are annealed for each member of a pool; a number of its own, whatever a vector holds.
  static constexpr std::size_t kReadsPerMember = 2;
  // Couplings, by variables, that may be looked at to group what two states differ in.
  static constexpr std::size_t kGroupingWork = 128;

  PoolPlan(const Qubo& qubo, const MemeticOptions& options);

  std::size_t size(std::size_t p) const;
  std::uint32_t sweeps(std::size_t p) const;
  /// Cooled over the window of a probe, not the wide one.
  bool probed(std::size_t p) const;
  /// The temperatures of those sweeps over that window, as kernels take them.
  std::vector<float> schedule(std::size_t p, const Window& window) const;
  std::uint64_t patience() const { return patience_; }
  std::uint64_t most_children() const { return most_children_; }
  /// Children in a row that did not enter the pool, after which it has nothing more to give.
  std::uint64_t most_failures(std::size_t size) const;
  std::int64_t target() const { return target_; }

 private:
  std::size_t n_, pool_size_;
  std::uint64_t sweeps_, patience_, most_children_;
  std::int64_t target_;
};

/// Takes pools in order until no more are wanted.
class Harvest {
 public:
  Harvest(const Qubo& qubo, const MemeticOptions& options);

  bool by_agreement() const { return options_.restarts == 0; }
  bool by_clock() const { return by_agreement() && options_.until > 0; }
  /// Pools that may be wanted in all.
  std::size_t most() const;
  bool done() const { return done_; }
  void take(Pool& pool);
  /// What was found, once the search has ended or was stopped.
  MemeticResult finish(StopReason stopped);

 private:
  void add(std::vector<Member>& members);
  void widen();
  std::int64_t cost(const Words& words, std::size_t i) const;

  const Qubo& qubo_;
  const MemeticOptions& options_;
  std::vector<Member> best_;  // distinct, of all pools
  MemeticResult result_;
  std::int64_t lowest_;
  std::uint64_t moves_ = 0;
  std::size_t agreeing_ = 0;
  bool done_ = false;
};

}  // namespace isinglass
