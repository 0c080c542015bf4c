#include "isinglass/exact.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "isinglass/anneal.hpp"
#include "isinglass/posiform.hpp"
#include "isinglass/schedule.hpp"

namespace isinglass {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 2;  // a difference to it does not overflow
constexpr Literal kNone = std::numeric_limits<Literal>::max();

/// Variables taken out of the integer model one by one, so that some optimum of what is left extends to one of all.
///
/// By symmetry: where no spin feels a field, flipping all changes no energy, so one variable may be 0.
/// By sign (P. L. Hammer, P. Hansen, 1981, "Logical relations in quadratic 0-1 programming"): no coupling can turn a
/// bias. By degree: a variable with at most two neighbours takes its better value for each of their four states, and
/// what it then adds is a bias on each and a coupling between them.
class Reduction {
 public:
  explicit Reduction(const Qubo& qubo)
      : linear_(qubo.linear().begin(), qubo.linear().end()), rows_(qubo.size()), gone_(qubo.size()) {
    const SparseRows& sparse = qubo.sparse_rows();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::int64_t k = sparse.start[i]; k < sparse.start[i + 1]; ++k) {
        const Coupling& c = sparse.entries[static_cast<std::size_t>(k)];
        rows_[i].push_back({c.neighbour, c.weight});
      }
    }
  }

  void run() {
    break_symmetry();
    for (std::size_t i = rows_.size(); i-- > 0;) pending_.push_back(static_cast<std::int32_t>(i));
    std::vector<std::uint8_t> queued(rows_.size(), 1);
    while (!pending_.empty()) {
      const std::int32_t i = pending_.back();
      pending_.pop_back();
      queued[at(i)] = 0;
      if (gone_[at(i)]) continue;
      touched_.clear();
      eliminate(i);
      for (std::int32_t j : touched_) {
        if (!queued[at(j)]) {
          queued[at(j)] = 1;
          pending_.push_back(j);
        }
      }
    }
  }

  std::vector<std::int32_t> left() const {
    std::vector<std::int32_t> out;
    for (std::size_t i = 0; i < gone_.size(); ++i) {
      if (!gone_[i]) out.push_back(static_cast<std::int32_t>(i));
    }
    return out;
  }
  std::int64_t constant() const { return constant_; }
  std::int64_t linear(std::int32_t i) const { return linear_[at(i)]; }
  std::int32_t largest_coupling() const {
    std::int64_t largest = 0;
    for (const Row& row : rows_) {
      for (const auto& [j, w] : row) largest = std::max(largest, std::abs(w));
    }
    return static_cast<std::int32_t>(largest);
  }
  template <class Visit>
  void for_couplings(Visit visit) const {  // i < j
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (const auto& [j, w] : rows_[i]) {
        if (at(j) > i) visit(static_cast<std::int32_t>(i), j, static_cast<std::int32_t>(w));
      }
    }
  }

  /// Completes a state whose left variables are set.
  void extend(std::uint8_t* x) const {
    for (auto it = steps_.rbegin(); it != steps_.rend(); ++it) {
      std::int64_t field = it->bias;
      if (it->j >= 0 && x[it->j]) field += it->to_j;
      if (it->k >= 0 && x[it->k]) field += it->to_k;
      x[it->i] = field < 0;
    }
  }

 private:
  using Row = std::vector<std::pair<std::int32_t, std::int64_t>>;  // neighbours ascending
  /// x_i is 1 where bias + to_j x_j + to_k x_k is negative.
  struct Step {
    std::int32_t i;
    std::int64_t bias;
    std::int32_t j = -1;
    std::int64_t to_j = 0;
    std::int32_t k = -1;
    std::int64_t to_k = 0;
  };

  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  static Row::iterator place(Row& row, std::int32_t j) {
    return std::lower_bound(row.begin(), row.end(), j,
                            [](const auto& entry, std::int32_t key) { return entry.first < key; });
  }

  void break_symmetry() {
    std::int64_t most = -1;
    std::int32_t strongest = -1;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      std::int64_t field = 2 * linear_[i], strength = 0;
      for (const auto& [j, w] : rows_[i]) {
        field += w;
        strength += std::abs(w);
      }
      if (field != 0) return;
      if (strength > most) {
        most = strength;
        strongest = static_cast<std::int32_t>(i);
      }
    }
    if (strongest >= 0) settle(strongest, false);
  }

  void settle(std::int32_t i, bool one) {
    steps_.push_back({i, one ? -1 : 1});
    if (one) {
      constant_ += linear_[at(i)];
      for (const auto& [j, w] : rows_[at(i)]) linear_[at(j)] += w;
    }
    remove(i);
  }

  void eliminate(std::int32_t i) {
    const Row& row = rows_[at(i)];
    const std::int64_t bias = linear_[at(i)];
    std::int64_t low = bias, high = bias;
    for (const auto& [j, w] : row) (w < 0 ? low : high) += w;
    if (low >= 0 || high <= 0) {
      settle(i, low < 0);
    } else if (row.size() <= 2) {
      fold(i);
    }
  }

  void fold(std::int32_t i) {
    const Row row = rows_[at(i)];
    const std::int64_t bias = linear_[at(i)];
    const auto best = [](std::int64_t field) { return std::min<std::int64_t>(0, field); };
    Step step{i, bias, row[0].first, row[0].second};
    std::int64_t together = 0;
    if (row.size() == 2) {
      step.k = row[1].first;
      step.to_k = row[1].second;
      together = best(bias + step.to_j + step.to_k) - best(bias + step.to_j) - best(bias + step.to_k) + best(bias);
      Row& first = rows_[at(step.j)];
      const auto entry = place(first, step.k);
      const std::int64_t sum = together + (entry != first.end() && entry->first == step.k ? entry->second : 0);
      if (std::abs(sum) > std::numeric_limits<std::int32_t>::max()) return;
    }
    constant_ += best(bias);
    linear_[at(step.j)] += best(bias + step.to_j) - best(bias);
    if (step.k >= 0) linear_[at(step.k)] += best(bias + step.to_k) - best(bias);
    steps_.push_back(step);
    remove(i);
    if (together != 0) {
      couple(step.j, step.k, together);
      couple(step.k, step.j, together);
    }
  }

  void remove(std::int32_t i) {
    gone_[at(i)] = 1;
    for (const auto& [j, w] : rows_[at(i)]) {
      rows_[at(j)].erase(place(rows_[at(j)], i));
      touched_.push_back(j);
    }
    rows_[at(i)].clear();
  }

  void couple(std::int32_t i, std::int32_t j, std::int64_t w) {
    Row& row = rows_[at(i)];
    const auto entry = place(row, j);
    if (entry == row.end() || entry->first != j) {
      row.insert(entry, {j, w});
    } else if ((entry->second += w) == 0) {
      row.erase(entry);
    }
  }

  std::vector<std::int64_t> linear_;
  std::vector<Row> rows_;
  std::vector<std::uint8_t> gone_;
  std::int64_t constant_ = 0;
  std::vector<Step> steps_;
  std::vector<std::int32_t> pending_, touched_;
};

class Search {
 public:
  Search(const Qubo& qubo, const ExactOptions& options, Control& control)
      : qubo_(qubo), options_(options), control_(control), view_(qubo.view()), reduction_(qubo), state_(qubo.size()) {
    view_.offset = 0;
    // What a coefficient may be off its integer, and a sum of n * n / 2 of them may round, in integer units.
    const double n = static_cast<double>(qubo.size());
    if (qubo.max_error() > 0)
      error_ = qubo.max_error() * qubo.scale() + n * n * static_cast<double>(qubo.worst_field()) * 0x1p-53;
    // Decimal fractions are off their integers by units in the last place: nothing that a float64 energy could tell.
    integers_decide_ = error_ < 0x1p-20;
    // Reduction keeps one optimum of the integers, so it runs only where they decide and one is asked for.
    if (options.num_solutions == 1 && integers_decide_) reduction_.run();
    left_ = reduction_.left();
    if (Posiform::bytes(left_.size()) > options.memory_limit) {
      throw std::length_error("exact needs " + std::to_string(Posiform::bytes(left_.size())) + " bytes for the " +
                              std::to_string(left_.size()) + " variables that reduction left, memory_limit is " +
                              std::to_string(options.memory_limit));
    }
  }

  Proof run() {
    Proof proof;
    const double begin = control_.seconds();
    first_states();
    proof.start_seconds = control_.seconds() - begin;
    Posiform posiform(left_.size());
    posiform_ = &posiform;
    load();
    walk(proof);
    proof.nodes = nodes_;
    proof.reduced = qubo_.size() - left_.size();
    proof.stopped = control_.reason();
    report(proof);
    proof.search_seconds = control_.seconds() - begin - proof.start_seconds;
    return proof;
  }

 private:
  struct Frame {
    Posiform::Checkpoint at;
    Literal chosen;
    bool second = false;
    double share;
  };

  void first_states() {
    constexpr std::size_t kReads = 32, kSweeps = 400;
    for (std::size_t r = 0; r < options_.num_initial; ++r) offer(options_.initial_states + r * qubo_.size());
    const Window window = probe_window(qubo_);
    AnnealOptions anneal_options;
    anneal_options.num_reads = kReads;
    anneal_options.seed = options_.seed;
    anneal_options.report = false;
    anneal_options.t2 = kernel_temperatures(
        spaced(Spacing::geometric, qubo_.scale() / window.hot, qubo_.scale() / window.cold, kSweeps), qubo_.scale());
    const Reads reads = anneal(qubo_, anneal_options, control_);
    for (std::size_t r = 0; r < reads.count; ++r) offer(reads.states.data() + r * qubo_.size());
  }

  void load() {
    // Paths that use a term twice carry halves: the more often a unit can be halved, the closer to the roof dual.
    constexpr std::int32_t kMostUnits = 1024;
    const std::int32_t largest = std::max(1, reduction_.largest_coupling());
    while (units_ < kMostUnits && units_ * 2 <= (1 << 30) / largest) units_ *= 2;
    std::vector<std::size_t> column(qubo_.size());
    posiform_->add_constant(reduction_.constant() * units_);
    for (std::size_t k = 0; k < left_.size(); ++k) {
      column[static_cast<std::size_t>(left_[k])] = k;
      posiform_->add_linear(k, reduction_.linear(left_[k]) * units_);
    }
    reduction_.for_couplings([&](std::int32_t i, std::int32_t j, std::int32_t w) {
      posiform_->add_coupling(column[static_cast<std::size_t>(i)], column[static_cast<std::size_t>(j)], w * units_);
    });
    slack_ = kNever;
    if (options_.num_solutions == 1)
      slack_ = integers_decide_ ? 0 : (1 + static_cast<std::int64_t>(2 * error_)) * units_;
    set_enough();
  }

  void offer(const std::uint8_t* x) {
    double energy = 0;
    energies(view_, x, 1, &energy);
    best_.insert({energy, std::vector<std::uint8_t>(x, x + qubo_.size())});
    if (best_.size() > options_.num_solutions) best_.erase(std::prev(best_.end()));
  }

  /// No state below a node whose constant is `enough_` can enter the list.
  void set_enough() {
    enough_ = kNever;
    if (best_.size() < options_.num_solutions) return;
    const double scaled = best_.rbegin()->first * qubo_.scale();
    const std::int64_t target = integers_decide_ ? static_cast<std::int64_t>(std::llround(scaled))
                                                 : static_cast<std::int64_t>(std::floor(scaled + error_)) + 1;
    // The smallest constant whose quotient by the units, rounded up, is the target.
    enough_ = units_ * (target - 1) + 1;
  }

  void set(Literal u) {
    posiform_->fix(u);
    state_[static_cast<std::size_t>(left_[u >> 1])] = (u & 1) == 0;
  }

  /// Bounds and fixes what it can; the literal to branch on, or kNone where nothing is left to find.
  Literal settle() {
    for (bool fixed = true; fixed;) {
      const bool final = posiform_->raise(enough_, control_);
      if (posiform_->constant() >= enough_) return kNone;
      if (control_.reason() != StopReason::none) return kNone;
      fixed = false;
      // Persistency: when no flow is left, every literal with a linear term is false in all optima.
      const std::int64_t slack = final ? slack_ : kNever;
      for (Literal u : posiform_->charged()) {
        if (!posiform_->alive(u) || posiform_->linear(u) == 0) continue;
        if (posiform_->linear(u) > slack || posiform_->linear(u) >= enough_ - posiform_->constant()) {
          set(negated(u));
          fixed = true;
        }
      }
    }
    const Literal u = branch();
    if (u == kNone) {
      reduction_.extend(state_.data());
      offer(state_.data());
      set_enough();
    }
    return u;
  }

  Literal branch() {
    Literal chosen = kNone;
    // The product of what both values meet: neither child should be as hard as its parent.
    double most = -1;
    std::int64_t most_of_both = -1;
    for (Literal u = 0; u < 2 * left_.size(); u += 2) {
      if (!posiform_->alive(u)) continue;
      const std::int64_t one = posiform_->pressure(u), zero = posiform_->pressure(negated(u)), both = one + zero;
      const double product = static_cast<double>(one) * static_cast<double>(zero);
      if (product > most || (product == most && both > most_of_both)) {
        most = product;
        most_of_both = both;
        chosen = one <= zero ? u : negated(u);
      }
    }
    if (most_of_both == 0 && slack_ == 0) {
      // No term is left: any values do.
      for (Literal u = 0; u < 2 * left_.size(); u += 2) {
        if (posiform_->alive(u)) set(negated(u));
      }
      return kNone;
    }
    return chosen;
  }

  void walk(Proof& proof) {
    std::vector<Frame> stack;
    double share = 1, done = 0;
    std::int64_t open = kNever;
    for (;;) {
      const bool cut = nodes_ >= options_.node_limit.value_or(std::numeric_limits<std::uint64_t>::max());
      Literal u = kNone;
      if (!cut && !control_.stop()) {
        ++nodes_;
        u = settle();
      }
      if (nodes_ <= 1) proof.root_bound = to_energy(posiform_->constant());
      if (cut || control_.reason() != StopReason::none) {
        open = posiform_->constant();
        for (const Frame& frame : stack) {
          if (!frame.second) open = std::min(open, frame.at.constant);
        }
        break;
      }
      if (u != kNone) {
        share /= 2;
        stack.push_back({posiform_->checkpoint(), u, false, share});
        set(u);
        continue;
      }
      done += share;
      control_.report(done);
      while (!stack.empty() && stack.back().second) stack.pop_back();
      if (stack.empty()) break;
      Frame& frame = stack.back();
      posiform_->restore(frame.at);
      frame.second = true;
      share = frame.share;
      set(negated(frame.chosen));
    }
    proof.proved = open == kNever;
    lower_bound_ = open;
  }

  /// What every energy with this integer bound is at least, without the offset.
  double to_energy(std::int64_t constant) const {
    const std::int64_t floor = constant / units_ - (constant % units_ < 0);
    const std::int64_t ceiling = floor + (constant != floor * units_);
    return (static_cast<double>(ceiling) - error_) / qubo_.scale();
  }

  void report(Proof& proof) const {
    proof.count = best_.size();
    for (const auto& [energy, x] : best_) proof.states.insert(proof.states.end(), x.begin(), x.end());
    proof.energies.resize(proof.count);
    energies(qubo_.view(), proof.states.data(), proof.count, proof.energies.data());
    const double lowest = best_.begin()->first, offset = qubo_.view().offset;
    proof.lower_bound = proof.proved ? proof.energies.front() : std::min(to_energy(lower_bound_), lowest) + offset;
    proof.root_bound = std::min(proof.root_bound, lowest) + offset;
  }

  const Qubo& qubo_;
  const ExactOptions& options_;
  Control& control_;
  QuboView view_;  // without the offset, whose size may swallow differences
  Reduction reduction_;
  std::vector<std::int32_t> left_;
  Posiform* posiform_ = nullptr;
  std::int32_t units_ = 1;  // of the posiform in one of the integer model
  double error_ = 0;        // integer units
  bool integers_decide_ = true;
  std::int64_t slack_ = 0, enough_ = kNever, lower_bound_ = 0;
  std::vector<std::uint8_t> state_;
  std::set<std::pair<double, std::vector<std::uint8_t>>> best_;
  std::uint64_t nodes_ = 0;
};

}  // namespace

Proof exact(const Qubo& qubo, const ExactOptions& options, Control& control) {
  return Search(qubo, options, control).run();
}

}  // namespace isinglass
