#include "isinglass/sharded.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "isinglass/parallel.hpp"
#include "isinglass/random.hpp"

namespace isinglass {
namespace {

/// Items of each shard, ascending: each that may be picked in one of them, what is pinned in all.
std::vector<std::vector<Item>> split(const PackingProblem& problem, const ShardOptions& options) {
  std::vector<std::vector<Item>> shards(options.shards);
  std::vector<std::uint8_t> pinned(problem.size(), 0);
  for (Item item : problem.view().pinned) pinned[static_cast<std::size_t>(item)] = 1;
  const SweepKey key = sweep_key(read_key(options.seed ^ stream::shards, 0), 0);
  for (std::size_t i = 0; i < problem.size(); ++i) {
    const auto item = static_cast<Item>(i);
    if (pinned[i]) {
      for (std::vector<Item>& shard : shards) shard.push_back(item);
    } else if (problem.eligible()[i]) {
      const std::uint64_t bits = random_bits(key, static_cast<std::uint32_t>(i));
      shards[static_cast<std::size_t>(bits * options.shards >> 32)].push_back(item);
    }
  }
  return shards;
}

Packing pack(const PackingProblem& whole, const std::vector<Item>& items, Control& control) {
  const PackingProblem part(whole, items);
  Packing packing = greedy(part, {}, CertificateLevel::fast, control);
  for (Item& item : packing.selection) item = items[static_cast<std::size_t>(item)];
  return packing;
}

}  // namespace

Packing sharded(const PackingProblem& problem, const ShardOptions& options, CertificateLevel certificate,
                Control& control) {
  const std::vector<std::vector<Item>> shards = split(problem, options);
  std::vector<Packing> packings(shards.size() + 1);  // of the shards, and of what they picked
  std::atomic<std::size_t> done{0};
  parallel_for(shards.size(), options.threads, control, [&](std::size_t s) {
    packings[s] = pack(problem, shards[s], control);
    control.report(static_cast<double>(++done) / static_cast<double>(shards.size() + 1));
  });
  std::vector<Item> picked(problem.view().pinned.begin(), problem.view().pinned.end());
  for (const Packing& packing : packings) {
    picked.insert(picked.end(), packing.selection.begin(), packing.selection.end());
  }
  std::sort(picked.begin(), picked.end());
  picked.erase(std::unique(picked.begin(), picked.end()), picked.end());
  // Also where the clock has stopped: then it holds what is pinned.
  packings.back() = pack(problem, picked, control);

  std::size_t evaluations = 0;
  Packing* best = &packings.back();
  for (Packing& packing : packings) {
    evaluations += packing.gain_evaluations;
    if (packing.value > best->value) best = &packing;
  }
  Packing out = std::move(*best);
  out.gain_evaluations = evaluations;
  out.level = level();
  out.search_seconds = control.seconds();
  recount(problem, out);
  out.bound = bound_at(problem, out.selection, certificate, control, options.threads);
  out.bound.value = std::max(out.bound.value, out.value);
  out.certificate_seconds = control.seconds() - out.search_seconds;
  out.stopped = control.reason();
  return out;
}

}  // namespace isinglass
