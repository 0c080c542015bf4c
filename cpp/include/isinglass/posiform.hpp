// A QUBO as a constant plus terms that are never negative: the constant bounds every energy from below.
//
// Over the literals x_i (number 2i) and 1 - x_i (2i + 1) the energy is C + sum_u p_u u + sum_{u,v} q_uv u v with p, q
// >= 0, each pair once. Two identities raise C and change no energy: u + (1 - u) = 1, and u + (1 - u) v = v + u (1 -
// v), which carries a linear term along a quadratic one. Carrying it from where it is to where its complement waits is
// a flow, and what no flow can raise is the roof dual bound. Everything is in integers, so the bound is exact whatever
// the order of the steps, and a step can be taken back.
//
// P. L. Hammer, P. Hansen, B. Simeone, 1984, "Roof duality, complementation and persistency in quadratic 0-1
// optimization"; E. Boros, P. L. Hammer, 2002, "Pseudo-Boolean optimization" (the flow on the implication network).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isinglass/control.hpp"

namespace isinglass {

using Literal = std::uint32_t;
inline Literal negated(Literal u) { return u ^ 1; }

/// A set of literals, a bit each.
using LiteralSet = std::vector<std::uint64_t>;

class Posiform {
 public:
  /// No terms over so many variables.
  explicit Posiform(std::size_t variables);
  static std::size_t bytes(std::size_t variables);

  /// Terms of an energy; all before the first `raise`.
  void add_constant(std::int64_t value) { constant_ += value; }
  void add_linear(std::size_t i, std::int64_t value);
  void add_coupling(std::size_t i, std::size_t j, std::int32_t value);

  std::int64_t constant() const { return constant_; }
  std::int64_t linear(Literal u) const { return linear_[u]; }
  bool alive(Literal u) const { return test(alive_, u); }
  std::size_t num_alive() const { return num_alive_; }
  /// Literals with a linear term.
  std::vector<Literal> charged() const;
  /// What setting `u` meets: its linear term and the quadratic ones that it turns into linear ones.
  std::int64_t pressure(Literal u) const;

  /// Raises the constant until it reaches `enough`, or cannot be raised along any path, or the control stops. True when
  /// no path is left: then every literal with a linear term, and all that it leads to, is false in all optima.
  bool raise(std::int64_t enough, Control& control);
  /// Makes a literal true: its variable leaves the form.
  void fix(Literal u);

  /// All that `restore` needs to come back to here; checkpoints are restored in the reverse order of their making.
  struct Checkpoint {
    std::int64_t constant;
    std::size_t num_alive;
    std::size_t moves;
    LiteralSet alive;
    std::vector<std::int64_t> linear;
  };
  Checkpoint checkpoint() const { return {constant_, num_alive_, moves_.size(), alive_, linear_}; }
  void restore(const Checkpoint& at);

 private:
  /// `amount` carried from literal `from` to literal `to`.
  struct Move {
    Literal from, to;
    std::int32_t amount;
  };

  static bool test(const LiteralSet& set, Literal u) { return (set[u >> 6] >> (u & 63) & 1) != 0; }
  static void assign(LiteralSet& set, Literal u, bool in) {
    const std::uint64_t bit = std::uint64_t{1} << (u & 63);
    in ? set[u >> 6] |= bit : set[u >> 6] &= ~bit;
  }
  std::int32_t& quadratic(Literal u, Literal v) { return quadratic_[u * literals_ + v]; }
  void set_linear(Literal u, std::int64_t value);
  void charge(Literal u, std::int64_t amount);
  void change(Literal u, Literal v, std::int32_t amount);
  bool find_path();
  bool carry();  // along path_; false for half a unit, which integers cannot carry

  std::size_t literals_;
  std::size_t words_;
  std::size_t num_alive_;
  std::int64_t constant_ = 0;
  std::vector<std::int64_t> linear_;
  std::vector<std::int32_t> quadratic_;  // literals * literals, symmetric
  LiteralSet present_;                   // words per literal: where a row of `quadratic_` is not 0
  LiteralSet alive_, charged_;
  std::vector<Move> moves_;

  // Of the search for a path, kept to save allocations.
  LiteralSet seen_;
  std::vector<Literal> queue_, parent_, path_;
  std::vector<std::int32_t> place_;  // on the path, or -1
};

}  // namespace isinglass
