#include "isinglass/posiform.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace isinglass {
namespace {

constexpr Literal kNone = std::numeric_limits<Literal>::max();
constexpr int kAugmentsPerLook = 64;  // between two looks at the control

/// The literals whose complements are in a word: neighbours in pairs of bits.
std::uint64_t complements(std::uint64_t word) {
  constexpr std::uint64_t kEven = 0x5555555555555555u;
  return (word & kEven) << 1 | (word >> 1 & kEven);
}

template <class Visit>
void for_bits(std::uint64_t word, std::size_t base, Visit visit) {
  for (; word != 0; word &= word - 1) visit(static_cast<Literal>(base + static_cast<unsigned>(std::countr_zero(word))));
}

}  // namespace

Posiform::Posiform(std::size_t variables)
    : literals_(2 * variables),
      words_((literals_ + 63) / 64),
      num_alive_(variables),
      linear_(literals_),
      quadratic_(literals_ * literals_),
      present_(literals_ * words_),
      alive_(words_),
      charged_(words_),
      seen_(words_),
      queue_(literals_),
      parent_(literals_),
      place_(literals_, -1) {
  for (Literal u = 0; u < literals_; ++u) assign(alive_, u, true);
}

std::size_t Posiform::bytes(std::size_t variables) {
  const std::size_t literals = 2 * variables;
  return literals * literals * sizeof(std::int32_t) + literals * literals / 8;
}

void Posiform::set_linear(Literal u, std::int64_t value) {
  linear_[u] = value;
  assign(charged_, u, value != 0);
}

void Posiform::charge(Literal u, std::int64_t amount) {
  const std::int64_t value = linear_[u] + amount, opposite = linear_[negated(u)];
  const std::int64_t both = std::min(value, opposite);
  set_linear(u, value - both);
  if (both != 0) set_linear(negated(u), opposite - both);
  constant_ += both;
}

void Posiform::change(Literal u, Literal v, std::int32_t amount) {
  const std::int32_t value = quadratic(u, v) + amount;
  quadratic(u, v) = quadratic(v, u) = value;
  const bool there = value != 0;
  const auto mark = [&](Literal row, Literal column) {
    std::uint64_t& word = present_[row * words_ + (column >> 6)];
    const std::uint64_t bit = std::uint64_t{1} << (column & 63);
    word = there ? word | bit : word & ~bit;
  };
  mark(u, v);
  mark(v, u);
}

void Posiform::add_linear(std::size_t i, std::int64_t value) {
  const auto u = static_cast<Literal>(2 * i);
  if (value < 0) constant_ += value;  // a x = a + |a| (1 - x)
  charge(value < 0 ? negated(u) : u, std::abs(value));
}

void Posiform::add_coupling(std::size_t i, std::size_t j, std::int32_t value) {
  const auto u = static_cast<Literal>(2 * i), v = static_cast<Literal>(2 * j);
  if (value > 0) {
    change(u, v, value);
  } else if (value < 0) {  // w x y = w y + |w| (1 - x) y
    add_linear(j, value);
    change(negated(u), v, -value);
  }
}

std::vector<Literal> Posiform::charged() const {
  std::vector<Literal> out;
  for (std::size_t w = 0; w < words_; ++w) for_bits(charged_[w], 64 * w, [&](Literal u) { out.push_back(u); });
  return out;
}

std::int64_t Posiform::pressure(Literal u) const {
  std::int64_t total = linear_[u];
  const std::int32_t* row = quadratic_.data() + u * literals_;
  for (std::size_t w = 0; w < words_; ++w) {
    for_bits(present_[u * words_ + w] & alive_[w], 64 * w, [&](Literal v) { total += row[v]; });
  }
  return total;
}

/// Breadth first from every charged literal to the nearest one whose complement is charged; into path_.
bool Posiform::find_path() {
  std::size_t head = 0, tail = 0;
  for (std::size_t w = 0; w < words_; ++w) {
    seen_[w] = charged_[w];
    for_bits(charged_[w], 64 * w, [&](Literal u) {
      queue_[tail++] = u;
      parent_[u] = kNone;
    });
  }
  while (head < tail) {
    const Literal v = queue_[head++];
    const std::uint64_t* row = present_.data() + negated(v) * words_;
    for (std::size_t w = 0; w < words_; ++w) {
      const std::uint64_t reach = row[w] & alive_[w] & ~seen_[w];
      if (reach == 0) continue;
      if (const std::uint64_t ends = reach & complements(charged_[w]); ends != 0) {
        auto at = static_cast<Literal>(64 * w + static_cast<unsigned>(std::countr_zero(ends)));
        parent_[at] = v;
        path_.clear();
        for (; at != kNone; at = parent_[at]) path_.push_back(at);
        std::reverse(path_.begin(), path_.end());
        return true;
      }
      seen_[w] |= reach;
      for_bits(reach, 64 * w, [&](Literal u) {
        queue_[tail++] = u;
        parent_[u] = v;
      });
    }
  }
  return false;
}

bool Posiform::carry() {
  const Literal first = path_.front(), end = negated(path_.back());
  for (std::size_t k = 0; k < path_.size(); ++k) place_[path_[k]] = static_cast<std::int32_t>(k);
  std::int64_t amount = first == end ? linear_[first] / 2 : std::min(linear_[first], linear_[end]);
  for (std::size_t k = 0; k + 1 < path_.size(); ++k) {
    const Literal from = path_[k], to = path_[k + 1];
    // A path may use the term of (from, to) a second time as (not to, not from); then it carries half.
    const std::int32_t mirror = place_[negated(to)];
    const bool twice = mirror >= 0 && place_[negated(from)] == mirror + 1;
    amount = std::min<std::int64_t>(amount, quadratic(negated(from), to) / (twice ? 2 : 1));
  }
  for (Literal u : path_) place_[u] = -1;
  if (amount == 0) return false;
  const auto carried =
      static_cast<std::int32_t>(std::min<std::int64_t>(amount, std::numeric_limits<std::int32_t>::max()));
  set_linear(first, linear_[first] - carried);
  for (std::size_t k = 0; k + 1 < path_.size(); ++k) {
    const Literal from = path_[k], to = path_[k + 1];
    change(negated(from), to, -carried);
    change(from, negated(to), carried);
    moves_.push_back({from, to, carried});
  }
  set_linear(end, linear_[end] - carried);
  constant_ += carried;
  return true;
}

bool Posiform::raise(std::int64_t enough, Control& control) {
  for (int k = 1; constant_ < enough; ++k) {
    if (!find_path()) return true;
    if (!carry()) return false;
    if (k % kAugmentsPerLook == 0 && control.stop()) return false;
  }
  return false;
}

void Posiform::fix(Literal u) {
  constant_ += linear_[u];
  for (Literal gone : {u, negated(u)}) {
    set_linear(gone, 0);
    assign(alive_, gone, false);
  }
  --num_alive_;
  const std::int32_t* row = quadratic_.data() + u * literals_;
  for (std::size_t w = 0; w < words_; ++w) {
    for_bits(present_[u * words_ + w] & alive_[w], 64 * w, [&](Literal v) { charge(v, row[v]); });
  }
}

void Posiform::restore(const Checkpoint& at) {
  while (moves_.size() > at.moves) {
    const Move& move = moves_.back();
    change(negated(move.from), move.to, move.amount);
    change(move.from, negated(move.to), -move.amount);
    moves_.pop_back();
  }
  constant_ = at.constant;
  num_alive_ = at.num_alive;
  alive_ = at.alive;
  linear_ = at.linear;
  for (std::size_t w = 0; w < words_; ++w) charged_[w] = 0;
  for (Literal u = 0; u < literals_; ++u) {
    if (linear_[u] != 0) assign(charged_, u, true);
  }
}

}  // namespace isinglass
