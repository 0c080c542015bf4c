#include "isinglass/breeding.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace isinglass {
namespace {

template <class Integer>
std::size_t at(Integer i) {
  return static_cast<std::size_t>(i);
}

std::uint32_t below(std::uint32_t bits, std::uint32_t count) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits) * count) >> 32);
}

}  // namespace

bool Clusters::Link::operator<(const Link& other) const {
  if (strength != other.strength) return strength > other.strength;
  if (tie != other.tie) return tie < other.tie;
  return first != other.first ? first < other.first : second < other.second;
}

bool Clusters::affordable(const std::vector<std::int32_t>& differing) const {
  const SparseRows& rows = qubo_.sparse_rows();
  std::size_t couplings = 0;
  for (std::int32_t i : differing) couplings += static_cast<std::size_t>(rows.start[at(i) + 1] - rows.start[at(i)]);
  return couplings <= PoolPlan::kGroupingWork * qubo_.size();
}

const std::vector<std::vector<std::int32_t>>& Clusters::of(const std::vector<std::int32_t>& differing,
                                                           std::uint32_t quarters, SweepKey key) {
  links_.clear();
  switch (layout_) {
    case Layout::sparse:
      link_along_rows(differing, key);
      break;
    case Layout::rows16_of8:
    case Layout::rows32_of8:
      link_pairs(qubo_.rows8(), differing, key);
      break;
    case Layout::rows16:
    case Layout::rows32_of16:
      link_pairs(qubo_.rows16(), differing, key);
      break;
    default:
      link_pairs(qubo_.rows32(), differing, key);
  }
  const std::size_t joins = std::min(links_.size(), quarters == 0 ? links_.size() : differing.size() * quarters / 4);
  std::nth_element(links_.begin(), links_.begin() + static_cast<std::ptrdiff_t>(joins), links_.end());
  root_.resize(differing.size());
  std::iota(root_.begin(), root_.end(), 0);
  for (std::size_t k = 0; k < joins; ++k) root_[at(root(links_[k].first))] = root(links_[k].second);
  groups_.clear();
  index_.assign(differing.size(), -1);
  for (std::size_t k = 0; k < differing.size(); ++k) {
    std::int32_t& group = index_[at(root(static_cast<std::int32_t>(k)))];
    if (group < 0) {
      group = static_cast<std::int32_t>(groups_.size());
      groups_.emplace_back();
    }
    groups_[at(group)].push_back(differing[k]);
  }
  return groups_;
}

void Clusters::link(const std::vector<std::int32_t>& differing, std::size_t first, std::size_t second,
                    std::int32_t weight, SweepKey key) {
  const auto i = static_cast<std::uint32_t>(differing[first]), j = static_cast<std::uint32_t>(differing[second]);
  links_.push_back({std::abs(weight), random_bits(key, i * 0x9e3779b1U + j), static_cast<std::int32_t>(first),
                    static_cast<std::int32_t>(second)});
}

void Clusters::link_along_rows(const std::vector<std::int32_t>& differing, SweepKey key) {
  const SparseRows& rows = qubo_.sparse_rows();
  for (std::size_t k = 0; k < differing.size(); ++k) place_[at(differing[k])] = static_cast<std::int32_t>(k);
  for (std::size_t k = 0; k < differing.size(); ++k) {
    const std::int32_t i = differing[k];
    for (std::int64_t e = rows.start[at(i)]; e < rows.start[at(i) + 1]; ++e) {
      const Coupling& c = rows.entries[at(e)];
      if (c.neighbour > i && place_[at(c.neighbour)] >= 0)
        link(differing, k, at(place_[at(c.neighbour)]), c.weight, key);
    }
  }
  for (std::int32_t i : differing) place_[at(i)] = -1;
}

template <class T>
void Clusters::link_pairs(const DenseRows<T>& rows, const std::vector<std::int32_t>& differing, SweepKey key) {
  for (std::size_t k = 0; k < differing.size(); ++k) {
    const T* const row = rows.values.data() + at(differing[k]) * rows.stride;
    for (std::size_t other = k + 1; other < differing.size(); ++other) {
      if (const T w = row[differing[other]]; w != 0) link(differing, k, other, w, key);
    }
  }
}

std::int32_t Clusters::root(std::int32_t k) {
  while (root_[at(k)] != k) k = root_[at(k)] = root_[at(root_[at(k)])];
  return k;
}

Breeder::Breeder(const Qubo& qubo, const MemeticOptions& options, const PoolPlan& plan, std::size_t p, Pool& pool)
    : qubo_(qubo),
      options_(options),
      plan_(plan),
      p_(p),
      pool_(pool),
      crossing_(read_key(options.seed ^ stream::crossover, p)),
      clusters_(qubo),
      free_slot_(plan.size(p)) {
  pool.size = free_slot_;
}

void Breeder::fill(std::vector<Member> found, Tabu& searcher) {
  const std::size_t n = qubo_.size();
  for (std::size_t s = 0; p_ == 0 && s < options_.num_initial_states; ++s) {
    found.push_back({0, Words(words_of(n)), 0, false});
    pack(options_.initial_states + s * n, n, found.back().words.data());
    found.back().energy = searcher.set(0, found.back().words.data());
  }
  std::sort(found.begin(), found.end());
  const auto same = [](const Member& a, const Member& b) { return a.words == b.words; };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  if (found.size() > pool_.size) found.resize(pool_.size);
  for (std::size_t m = 0; m < found.size(); ++m) found[m].slot = m;
  pool_.members = std::move(found);
  note();
}

bool Breeder::spent() const {
  return pool_.children >= plan_.most_children() || failures_ >= plan_.most_failures(pool_.size) ||
         pool_.target_reached;
}

std::size_t Breeder::cross(Tabu& searcher) {
  std::vector<Member>& members = pool_.members;
  const SweepKey key = sweep_key(crossing_, static_cast<std::uint32_t>(pool_.children++));
  const auto size = static_cast<std::uint32_t>(members.size());
  const std::uint32_t first = below(random_bits(key, 0), size);
  const std::uint32_t step = size > 1 ? 1 + below(random_bits(key, 1), size - 1) : 0;
  Member& parent = members[first];
  if (!parent.set) searcher.set(parent.slot, parent.words.data());
  parent.set = true;
  searcher.copy(free_slot_, parent.slot);
  cross(searcher, parent, members[(first + step) % size], key);
  return free_slot_;
}

void Breeder::take_in(std::int64_t energy, const std::uint32_t* words, bool set) {
  std::vector<Member>& members = pool_.members;
  Member child{energy, Words(words, words + words_of(qubo_.size())), free_slot_, set};
  const auto at = std::lower_bound(members.begin(), members.end(), child);
  const bool known = at != members.end() && at->words == child.words;
  if (known || (at == members.end() && members.size() == pool_.size)) {
    ++failures_;
  } else {
    failures_ = 0;
    const auto position = at - members.begin();
    if (members.size() == pool_.size) {
      free_slot_ = members.back().slot;
      std::rotate(members.begin() + position, members.end() - 1, members.end());
      members[static_cast<std::size_t>(position)] = std::move(child);
    } else {
      members.insert(at, std::move(child));
      // Slots 0 .. size - 1 are taken, and the spare one was given away.
      std::vector<std::uint8_t> taken(pool_.size + 1);
      for (const Member& member : members) taken[member.slot] = 1;
      free_slot_ = static_cast<std::size_t>(std::find(taken.begin(), taken.end(), 0) - taken.begin());
    }
  }
  note();
}

void Breeder::note() {
  if (options_.trace) pool_.trace.push_back(pool_.best());
  pool_.target_reached = pool_.best() <= plan_.target();
}

/// The free slot holds a copy of the parent, and becomes the child.
void Breeder::cross(Tabu& searcher, const Member& parent, const Member& other, SweepKey key) {
  std::vector<std::int32_t> differing, taken;
  const std::uint32_t style = random_bits(key, 2);
  for (std::size_t w = 0; w < parent.words.size(); ++w) {
    const std::uint32_t mask = random_bits(key, static_cast<std::uint32_t>(w) + 3);
    for (std::uint32_t left = parent.words[w] ^ other.words[w]; left != 0; left &= left - 1) {
      const int bit = __builtin_ctz(left);
      const auto i = static_cast<std::int32_t>(32 * w) + bit;
      differing.push_back(i);
      if (mask >> bit & 1) taken.push_back(i);
    }
  }
  if (style >> 30 == 0 || !clusters_.affordable(differing)) {
    searcher.flip(free_slot_, taken);
    return;
  }
  // Group by group whatever lowers the energy; of equals, by a coin.
  const auto& groups = clusters_.of(differing, style & 3, key);
  const SweepKey coins{key.k1, key.k0};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t before = searcher.energy(free_slot_), after = searcher.flip(free_slot_, groups[g]);
    const bool heads = random_bits(coins, static_cast<std::uint32_t>(g)) >> 31;
    if (after > before || (after == before && heads)) searcher.flip(free_slot_, groups[g]);
  }
}

}  // namespace isinglass
