#include "isinglass/pools.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace isinglass {
namespace {

// Later pools anneal longer, up to so many times: what the first ones did not find is worth it.
constexpr std::uint64_t kMostSweeps = 80;
// Later pools are larger by the numbers of Luby, up to so many times.
constexpr std::uint64_t kMostEffort = 8;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// Times a constant: 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ... Whatever effort a model needs, a share of about 1 / log of all
/// work goes to pools of that effort (M. Luby, A. Sinclair and D. Zuckerman 1993, "Optimal speedup of Las Vegas
/// algorithms").
std::uint64_t luby(std::uint64_t k) {
  for (++k;;) {
    std::uint64_t power = 1;
    while ((power << 1) - 1 < k) power <<= 1;
    if ((power << 1) - 1 == k) return power;
    k -= power - 1;
  }
}

bool same(const Member& a, const Member& b) { return a.words == b.words; }

}  // namespace

PoolPlan::PoolPlan(const Qubo& qubo, const MemeticOptions& options)
    : n_(qubo.size()),
      pool_size_(options.pool_size),
      sweeps_(std::min(n_ + n_ / 3 + 1, std::max<std::size_t>(200, n_ / 5 + 100))),
      patience_(options.patience > 0 ? options.patience : n_ + 50),
      most_children_(options.generations > 0 ? options.generations : kNoLimit),
      target_(integer_target(qubo, options.target_energy)) {}

std::size_t PoolPlan::size(std::size_t p) const { return pool_size_ * std::min(luby(p), kMostEffort); }

std::uint32_t PoolPlan::sweeps(std::size_t p) const {
  return static_cast<std::uint32_t>(sweeps_ * std::min<std::uint64_t>(1 + 2 * p, kMostSweeps));
}

bool PoolPlan::probed(std::size_t p) const {
  // What few variables hide is mostly found in less time than a probe takes, over the range that it would look at.
  constexpr std::size_t kWorthProbing = 64;
  return p > 0 || n_ >= kWorthProbing;
}

std::vector<float> PoolPlan::schedule(std::size_t p, const Window& window) const {
  std::vector<float> t2(sweeps(p), 0);
  if (window.hot > 0) {
    const std::vector<double> temperatures = geometric(window.hot, window.cold, t2.size());
    std::transform(temperatures.begin(), temperatures.end(), t2.begin(), kernel_temperature);
  }
  return t2;
}

std::uint64_t PoolPlan::most_failures(std::size_t size) const {
  return most_children_ == kNoLimit ? 2 * size : kNoLimit;
}

Harvest::Harvest(const Qubo& qubo, const MemeticOptions& options)
    : qubo_(qubo), options_(options), lowest_(std::numeric_limits<std::int64_t>::max()) {}

std::size_t Harvest::most() const {
  if (by_clock()) return std::numeric_limits<std::size_t>::max();
  return by_agreement() ? kMostRestarts : options_.restarts;
}

void Harvest::take(Pool& pool) {
  Reads& reads = result_.reads;
  for (std::int64_t energy : pool.trace) {
    const double before = reads.trace.empty() ? std::numeric_limits<double>::infinity() : reads.trace.back();
    reads.trace.push_back(std::min(before, static_cast<double>(energy) / qubo_.scale() + qubo_.view().offset));
  }
  if (pool.best() < lowest_) agreeing_ = 0;
  if (pool.best() <= lowest_) ++agreeing_;
  lowest_ = std::min(lowest_, pool.best());
  add(pool.members);
  moves_ += pool.moves;
  result_.children += pool.children;
  reads.generations += pool.whole;
  reads.target_reached = pool.target_reached;
  done_ = pool.target_reached || !pool.whole || (by_agreement() && !by_clock() && agreeing_ == 2);
}

MemeticResult Harvest::finish(StopReason stopped) {
  if (options_.widen) widen();
  Reads& reads = result_.reads;
  const std::size_t n = qubo_.size();
  reads.stopped = reads.target_reached ? StopReason::none : stopped;
  reads.count = best_.size();
  reads.states.resize(reads.count * n);
  reads.energies.resize(reads.count);
  reads.flips = {moves_};
  for (std::size_t m = 0; m < reads.count; ++m) unpack(best_[m].words.data(), n, reads.states.data() + m * n);
  energies(qubo_.view(), reads.states.data(), reads.count, reads.energies.data());
  // An image that rounds may be off by its error: the caller's numbers decide.
  reads.target_reached = reads.target_reached &&
                         *std::min_element(reads.energies.begin(), reads.energies.end()) <= *options_.target_energy;
  return std::move(result_);
}

void Harvest::add(std::vector<Member>& members) {
  std::vector<Member> merged;
  std::merge(std::make_move_iterator(best_.begin()), std::make_move_iterator(best_.end()),
             std::make_move_iterator(members.begin()), std::make_move_iterator(members.end()),
             std::back_inserter(merged));
  merged.erase(std::unique(merged.begin(), merged.end(), same), merged.end());
  if (merged.size() > options_.keep) merged.resize(options_.keep);
  best_ = std::move(merged);
}

/// Adds neighbours by one flip while they belong among the best.
void Harvest::widen() {
  std::vector<Member>& best = best_;
  for (Member& member : best) member.set = false;  // from here on: its neighbours have been looked at
  for (auto next = best.begin(); next != best.end();
       next = std::find_if(best.begin(), best.end(), [](const Member& member) { return !member.set; })) {
    next->set = true;
    const Member centre = *next;
    for (std::size_t i = 0; i < qubo_.size(); ++i) {
      Member neighbour{centre.energy + cost(centre.words, i), centre.words, 0, false};
      neighbour.words[i / 32] ^= 1U << (i % 32);
      const auto at = std::lower_bound(best.begin(), best.end(), neighbour);
      if (at != best.end() && same(*at, neighbour)) continue;
      if (at == best.end() && best.size() == options_.keep) continue;
      best.insert(at, std::move(neighbour));
      if (best.size() > options_.keep) best.pop_back();
    }
  }
}

std::int64_t Harvest::cost(const Words& words, std::size_t i) const {
  const auto on = [&](std::size_t j) { return words[j / 32] >> (j % 32) & 1; };
  const SparseRows& rows = qubo_.sparse_rows();
  std::int64_t field = qubo_.linear()[i];
  for (std::int64_t k = rows.start[i]; k < rows.start[i + 1]; ++k) {
    const Coupling& c = rows.entries[static_cast<std::size_t>(k)];
    if (on(static_cast<std::size_t>(c.neighbour))) field += c.weight;
  }
  return on(i) ? -field : field;
}

}  // namespace isinglass
