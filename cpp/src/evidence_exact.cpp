#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "isinglass/evidence.hpp"

namespace isinglass {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

// Steps on the dual: of a whole problem, of a node below it. A step that does not lower the bound makes the next ones
// shorter, until they are too short to matter. On random evidence of 20 to 100 passages these were the fastest of a
// grid: more steps a node cut fewer nodes than they cost.
constexpr int kRootSteps = 120;
constexpr int kNodeSteps = 3;
// Partners up to which insertion beats a general selection.
constexpr std::size_t kFew = 24;
struct Pace {
  double shrink, smallest;
};
constexpr Pace kSearching{0.6, 0.1};
constexpr Pace kBoundingOnly{0.95, 1e-3};  // nothing follows that could make up for a loose bound

/// A subproblem: the items already in, the candidates left, and exactly (or at most) so many more to choose.
///
/// Its bound relaxes that an item counts with its pair terms only if the partner is chosen too (as in the quadratic
/// knapsack problem: Caprara, Pisinger and Toth 1999, "Exact solution of the quadratic knapsack problem"). The pair
/// term p_kl is split into q_kl + q_lk, and item k may take the best q_k. of any partners; the weight w_b of a term is
/// split into v_b for everyone who covers it and w_b - v_b for nobody; a token costs mu. Any q, v in [0, w] and mu >= 0
/// give an upper bound, so integer multipliers make it exact.
struct Node {
  std::size_t count = 0;             // candidates
  std::size_t width = 0;             // of a row of `split`
  std::size_t open = 0;              // places left
  bool at_most = false;              // fewer than `open` will do
  std::int64_t value = 0, left = 0;  // of what is in; tokens left
  std::int64_t mu = 0;
  std::vector<std::int32_t> item;
  std::vector<std::int64_t> gain, cost, split;
  std::vector<std::int64_t> share;     // v_b; -1: covered
  std::vector<std::int32_t> coverers;  // candidates that cover the term
  std::vector<std::int32_t> in;        // chosen items
};

struct Entry {
  std::int64_t value;
  std::int32_t item;
};

class Search {
 public:
  Search(const EvidenceProblem& problem, Control& control, std::uint64_t node_limit, std::uint64_t work_limit)
      : problem_(problem), control_(control), node_limit_(node_limit), work_limit_(work_limit) {
    const std::size_t n = problem.size(), terms = problem.view().terms;
    levels_.resize(problem.view().max_items + 2);
    inner_.resize(n);
    worth_.resize(n);
    dirty_.resize(n);
    partner_.resize(n * std::max<std::size_t>(problem.view().max_items, 1));
    top_.resize(problem.view().max_items + 1);
    top_item_.resize(problem.view().max_items + 1);
    slope_.resize(terms);
    keep_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < n; ++k) largest_pair_ = std::max(largest_pair_, std::abs(problem.pairs(i)[k]));
    }
  }

  void start_from(std::span<const std::int32_t> selection) {
    best_.assign(selection.begin(), selection.end());
    best_value_ = problem_.integer_value(best_);
  }

  /// Proves, or ends with the best upper bound that it has.
  void run() {
    Node root;
    make_root(root);
    const std::int64_t whole = improve(root, kRootSteps, false);
    bound_ = best_value_;
    if (whole <= best_value_) return;
    // One cardinality after the other, since "exactly r" lets nobody dodge a negative pair term; as soon as no smaller
    // selection can be better, all are done.
    for (;;) {
      if (root.open == 0 || root.count == 0) {
        if (root.left >= 0) offer(root.value, root, {});
        break;
      }
      levels_[0] = root;
      levels_[0].at_most = false;
      const std::int64_t open_bound = explore(0, kRootSteps);
      --root.open;
      const std::int64_t rest = root.open > 0 ? improve(root, stopped_ ? kNodeSteps : kRootSteps, false) : kLowest;
      if (stopped_) {
        bound_ = std::min(whole, std::max(open_bound, rest));
        break;
      }
      if (root.open > 0 && rest <= best_value_) break;
    }
    bound_ = std::max(best_value_, bound_);
  }

  /// The bound of the whole problem, by steps that aim at `target`, the value of some selection.
  std::int64_t bound_only(int steps, std::int64_t target) {
    Node root;
    make_root(root);
    best_value_ = std::max<std::int64_t>(0, target);
    return std::max(best_value_, improve(root, steps, true));
  }

  bool proved() const { return !stopped_; }
  std::int64_t best_value() const { return best_value_; }
  std::int64_t bound() const { return bound_; }
  std::span<const std::int32_t> best() const { return best_; }
  std::uint64_t nodes() const { return nodes_; }
  std::uint64_t dual_steps() const { return dual_steps_; }
  std::uint64_t work() const { return work_; }

 private:
  void make_root(Node& node) {
    const EvidenceView& view = problem_.view();
    const std::size_t n = view.n;
    node.at_most = true;
    node.open = std::min(view.max_items, n);
    node.left = problem_.costs() == nullptr ? 0 : view.budget;
    for (std::size_t i = 0; i < n; ++i) {
      if (problem_.costs() != nullptr && view.costs[i] > view.budget) continue;
      node.item.push_back(static_cast<std::int32_t>(i));
      node.gain.push_back(problem_.linear()[i]);
      node.cost.push_back(problem_.costs() == nullptr ? 0 : view.costs[i]);
    }
    node.count = node.width = node.item.size();
    node.split.resize(node.count * node.count);
    for (std::size_t k = 0; k < node.count; ++k) {
      for (std::size_t l = 0; l < node.count; ++l) {
        const std::int64_t pair = problem_.pairs(static_cast<std::size_t>(node.item[k]))[node.item[l]];
        const std::int64_t half = pair >> 1;
        node.split[k * node.width + l] = k < l ? half : pair - half;
      }
    }
    node.coverers.assign(view.terms, 0);
    for (std::int32_t i : node.item) {
      for (std::int32_t t : problem_.terms_of(static_cast<std::size_t>(i)))
        ++node.coverers[static_cast<std::size_t>(t)];
    }
    node.share.resize(view.terms);
    for (std::size_t t = 0; t < view.terms; ++t) node.share[t] = problem_.term_weight(t);
    node.open = std::min(node.open, node.count);
  }

  /// Best sum of `many` entries of a row but its own, and which they are.
  std::int64_t best_partners(const Node& node, std::size_t k, std::size_t many) {
    const std::int64_t* row = node.split.data() + k * node.width;
    std::int32_t* const who = partner_.data() + k * stride_of_partners();
    const std::int64_t floor = node.at_most ? 0 : kLowest;
    work_ += node.count;
    std::size_t held = 0;
    std::int64_t sum = 0;
    if (many > kFew) {
      ranked_.clear();
      for (std::size_t l = 0; l < node.count; ++l) {
        if (row[l] > floor && l != k) ranked_.push_back({row[l], static_cast<std::int32_t>(l)});
      }
      held = std::min(many, ranked_.size());
      if (held < ranked_.size()) {
        // Of equal entries the lower index first, as below: which of them are taken must not depend on a library.
        std::nth_element(
            ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(held), ranked_.end(),
            [](const Entry& a, const Entry& b) { return a.value != b.value ? a.value > b.value : a.item < b.item; });
      }
      for (std::size_t a = 0; a < held; ++a) {
        sum += ranked_[a].value;
        who[a] = ranked_[a].item;
      }
    } else {
      std::int64_t bar = floor;
      for (std::size_t l = 0; l < node.count; ++l) {
        if (row[l] <= bar || l == k) continue;
        std::size_t at = held < many ? held++ : many - 1;
        for (; at > 0 && top_[at - 1] < row[l]; --at) {
          top_[at] = top_[at - 1];
          who[at] = who[at - 1];
        }
        top_[at] = row[l];
        who[at] = static_cast<std::int32_t>(l);
        if (held == many) bar = top_[many - 1];
      }
      for (std::size_t a = 0; a < held; ++a) sum += top_[a];
    }
    if (held < many) who[held] = -1;
    return sum;
  }
  std::size_t stride_of_partners() const { return std::max<std::size_t>(problem_.view().max_items, 1); }

  std::int64_t term_share(const Node& node, std::size_t k) const {
    std::int64_t sum = 0;
    for (std::int32_t t : problem_.terms_of(static_cast<std::size_t>(node.item[k]))) {
      const std::int64_t v = node.share[static_cast<std::size_t>(t)];
      if (v > 0) sum += v;
    }
    return sum;
  }

  /// The dual value at the node's multipliers; fills worth_, and top_/top_item_ with the best `open` (plus one) items.
  std::int64_t evaluate(const Node& node) {
    ++dual_steps_;
    const std::size_t many = node.open - 1;
    for (std::size_t k = 0; k < node.count; ++k) {
      if (dirty_[k] != 0) inner_[k] = many == 0 ? 0 : best_partners(node, k, many);
      dirty_[k] = 0;
      worth_[k] = node.gain[k] + term_share(node, k) + inner_[k] - node.mu * node.cost[k];
    }
    std::size_t held = 0;
    const std::size_t wanted = node.open + 1;
    for (std::size_t k = 0; k < node.count; ++k) {
      if (held == wanted && worth_[k] <= top_[wanted - 1]) continue;
      std::size_t at = held < wanted ? held++ : wanted - 1;
      for (; at > 0 && top_[at - 1] < worth_[k]; --at) {
        top_[at] = top_[at - 1];
        top_item_[at] = top_item_[at - 1];
      }
      top_[at] = worth_[k];
      top_item_[at] = static_cast<std::int32_t>(k);
    }
    picked_ = std::min(held, node.open);
    runner_up_ = held > node.open ? top_[node.open] : kLowest;
    if (node.at_most) {
      while (picked_ > 0 && top_[picked_ - 1] <= 0) --picked_;
    }
    std::int64_t bound = node.value + node.mu * node.left;
    for (std::size_t t = 0; t < node.share.size(); ++t) {
      if (node.share[t] >= 0 && node.coverers[t] > 0) bound += problem_.term_weight(t) - node.share[t];
    }
    for (std::size_t a = 0; a < picked_; ++a) bound += top_[a];
    return bound;
  }

  /// Moves the multipliers down the dual. Returns the lowest bound met; removes and includes candidates by it unless
  /// `keep_all`. Ends early once the bound is at most the best value.
  std::int64_t improve(Node& node, int steps, bool keep_all) {
    std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
    const Pace pace = keep_all ? kBoundingOnly : kSearching;
    double length = 1;
    std::fill_n(dirty_.begin(), node.count, 1);
    for (int step = 0;; ++step) {
      if (node.open == 0 || node.count == 0 || (!node.at_most && node.count <= node.open)) return lowest;
      const std::int64_t bound = evaluate(node);
      if (bound < lowest) {
        lowest = bound;
      } else {
        length *= pace.shrink;
      }
      if (!keep_all) {
        if (bound <= best_value_) return bound;
        if (reduce(node, bound)) {
          // Fewer candidates: the same multipliers give a bound of what is left.
          std::fill_n(dirty_.begin(), node.count, 1);
          continue;
        }
      }
      if (bound <= best_value_ || step >= steps || length < pace.smallest || ((step & 7) == 7 && stop())) return lowest;
      if (!descend(node, length * static_cast<double>(bound - best_value_))) return lowest;
    }
  }

  /// One subgradient step of length `distance` / |slope|^2 (Polyak 1969). False: the relaxed solution is consistent.
  bool descend(Node& node, double distance) {
    const std::size_t many = node.open - 1, stride = stride_of_partners();
    std::fill(slope_.begin(), slope_.end(), -1);
    in_top_.assign(node.count, -1);
    std::int64_t spent = 0;
    for (std::size_t a = 0; a < picked_; ++a) {
      const auto k = static_cast<std::size_t>(top_item_[a]);
      in_top_[k] = static_cast<std::int32_t>(a);
      spent += node.cost[k];
      for (std::int32_t t : problem_.terms_of(static_cast<std::size_t>(node.item[k]))) {
        ++slope_[static_cast<std::size_t>(t)];
      }
    }
    one_sided_.clear();
    for (std::size_t a = 0; a < picked_; ++a) {
      const std::int32_t k = top_item_[a];
      const std::int32_t* who = partner_.data() + static_cast<std::size_t>(k) * stride;
      for (std::size_t b = 0; b < many && who[b] >= 0; ++b) {
        const std::int32_t l = who[b];
        if (!returns(node, l, k)) one_sided_.push_back({k, l});
      }
    }
    double norm = static_cast<double>(one_sided_.size());
    for (std::size_t t = 0; t < slope_.size(); ++t) {
      std::int32_t& s = slope_[t];
      if (node.share[t] < 0 || node.coverers[t] == 0) s = 0;
      if ((s < 0 && node.share[t] >= problem_.term_weight(t)) || (s > 0 && node.share[t] == 0)) s = 0;
      norm += static_cast<double>(s) * s;
    }
    double budget_slope = 0, unit = 1;
    if (problem_.costs() != nullptr) {
      unit = std::max(1.0, static_cast<double>(node.left) / static_cast<double>(node.open));
      budget_slope = static_cast<double>(node.left - spent) / unit;
      if (budget_slope > 0 && node.mu == 0) budget_slope = 0;
      norm += budget_slope * budget_slope;
    }
    if (norm == 0) return false;
    const double length = distance / norm;
    const auto move = static_cast<std::int64_t>(std::min(length, static_cast<double>(largest_pair_))) + 1;
    for (const auto& [k, l] : one_sided_) {
      std::int64_t& from = node.split[static_cast<std::size_t>(k) * node.width + static_cast<std::size_t>(l)];
      std::int64_t& to = node.split[static_cast<std::size_t>(l) * node.width + static_cast<std::size_t>(k)];
      const std::int64_t moved = std::min(move, from + 3 * largest_pair_);
      if (moved <= 0) continue;
      from -= moved;
      to += moved;
      dirty_[static_cast<std::size_t>(k)] = dirty_[static_cast<std::size_t>(l)] = 1;
    }
    for (std::size_t t = 0; t < slope_.size(); ++t) {
      if (slope_[t] == 0) continue;
      const double weight = static_cast<double>(problem_.term_weight(t));
      const double v = static_cast<double>(node.share[t]) - length * slope_[t];
      node.share[t] = v >= weight ? problem_.term_weight(t) : v <= 0 ? 0 : static_cast<std::int64_t>(v);
    }
    if (budget_slope != 0) {
      const double mu = static_cast<double>(node.mu) - length * budget_slope / unit;
      // A token is never worth more than everything: keeps mu * left within range.
      const double most = 0x1p58 / static_cast<double>(std::max<std::int64_t>(1, problem_.view().budget)) /
                          static_cast<double>(node.open + 1);
      node.mu = static_cast<std::int64_t>(std::clamp(mu, 0.0, most));
    }
    return true;
  }

  /// Whether l is chosen too, and takes k as its partner.
  bool returns(const Node& node, std::int32_t l, std::int32_t k) const {
    if (in_top_[static_cast<std::size_t>(l)] < 0) return false;
    const std::int32_t* who = partner_.data() + static_cast<std::size_t>(l) * stride_of_partners();
    for (std::size_t b = 0; b + 1 < node.open && who[b] >= 0; ++b) {
      if (who[b] == k) return true;
    }
    return false;
  }

  /// Drops every candidate that no better selection holds, and takes every one that all of them hold.
  bool reduce(Node& node, std::int64_t bound) {
    const std::int64_t slack = bound - best_value_;  // > 0
    // The worth that an outsider displaces: the least picked, or an empty place.
    const std::int64_t least = picked_ == node.open ? top_[picked_ - 1] : 0;
    bool any = false;
    std::size_t picked_left = picked_;
    for (std::size_t k = 0; k < node.count; ++k) keep_[k] = worth_[k] > least - slack ? 1 : 0;
    for (std::size_t a = 0; a < picked_; ++a) {
      const auto k = static_cast<std::size_t>(top_item_[a]);
      const std::int64_t instead = node.at_most ? std::max<std::int64_t>(0, runner_up_) : runner_up_;
      keep_[k] = instead == kLowest || top_[a] >= slack + instead ? 2 : 1;
      if (keep_[k] == 2) --picked_left;
    }
    for (std::size_t k = 0; k < node.count; ++k) any |= keep_[k] != 1;
    if (!any) return false;
    include_and_compact(node);
    return true;
  }

  void include_and_compact(Node& node) {
    for (std::size_t k = 0; k < node.count; ++k) {
      if (keep_[k] == 2) include(node, k);
    }
    compact(node);
  }

  void include(Node& node, std::size_t k) {
    node.value += node.gain[k];
    node.left -= node.cost[k];
    --node.open;
    node.in.push_back(node.item[k]);
    for (std::int32_t t : problem_.terms_of(static_cast<std::size_t>(node.item[k]))) {
      std::int64_t& share = node.share[static_cast<std::size_t>(t)];
      if (share < 0) continue;
      share = -1;
      node.value += problem_.term_weight(static_cast<std::size_t>(t));
    }
    const std::int64_t* pairs = problem_.pairs(static_cast<std::size_t>(node.item[k]));
    for (std::size_t l = 0; l < node.count; ++l) node.gain[l] += pairs[node.item[l]];
  }

  /// Candidates with keep_ == 1 that still fit.
  void compact(Node& node) {
    std::size_t kept = 0;
    const bool costly = problem_.costs() != nullptr;
    map_.clear();
    for (std::size_t k = 0; k < node.count; ++k) {
      if (keep_[k] == 1 && (!costly || node.cost[k] <= node.left)) {
        map_.push_back(static_cast<std::int32_t>(k));
      } else {
        for (std::int32_t t : problem_.terms_of(static_cast<std::size_t>(node.item[k]))) {
          --node.coverers[static_cast<std::size_t>(t)];
        }
      }
    }
    for (std::int32_t from : map_) {
      const auto k = static_cast<std::size_t>(from);
      node.item[kept] = node.item[k];
      node.gain[kept] = node.gain[k];
      node.cost[kept] = node.cost[k];
      const std::int64_t* row = node.split.data() + k * node.width;
      std::int64_t* const to = node.split.data() + kept * node.width;
      for (std::size_t l = 0; l < map_.size(); ++l) to[l] = row[map_[l]];
      ++kept;
    }
    node.count = kept;
  }

  bool stop() {
    stopped_ = stopped_ || control_.stop() || (work_limit_ != 0 && work_ >= work_limit_);
    return stopped_;
  }

  void offer(std::int64_t value, const Node& node, std::span<const std::int32_t> more) {
    if (value <= best_value_) return;
    best_value_ = value;
    best_.assign(node.in.begin(), node.in.end());
    best_.insert(best_.end(), more.begin(), more.end());
  }

  /// The only completion, or the best single one: nothing is relaxed.
  void finish(const Node& node) {
    if (node.left < 0) return;
    if (node.open == 0) return offer(node.value, node, {});
    if (node.count < node.open) return;
    if (node.open == 1) {
      for (std::size_t k = 0; k < node.count; ++k) {
        std::int64_t value = node.value + node.gain[k];
        for (std::int32_t t : problem_.terms_of(static_cast<std::size_t>(node.item[k]))) {
          if (node.share[static_cast<std::size_t>(t)] >= 0) value += problem_.term_weight(static_cast<std::size_t>(t));
        }
        offer(value, node, {&node.item[k], 1});
      }
      return;
    }
    std::int64_t spent = 0;
    for (std::size_t k = 0; k < node.count; ++k) spent += node.cost[k];
    if (spent > node.left) return;
    all_.assign(node.in.begin(), node.in.end());
    all_.insert(all_.end(), node.item.begin(), node.item.begin() + static_cast<std::ptrdiff_t>(node.count));
    const std::int64_t value = problem_.integer_value(all_);
    if (value > best_value_) {
      best_value_ = value;
      best_ = all_;
    }
  }

  /// Searches the node at `level`. Returns an upper bound of what it left open when it stopped.
  std::int64_t explore(std::size_t level, int steps) {
    Node& node = levels_[level];
    std::int64_t bound = std::numeric_limits<std::int64_t>::max();
    for (;;) {
      if (node.open <= 1 || node.count <= node.open) {
        finish(node);
        return kLowest;
      }
      if (stopped_ || (node_limit_ != 0 && nodes_ >= node_limit_)) {
        stopped_ = true;
        return bound;
      }
      ++nodes_;
      bound = improve(node, steps, false);
      steps = kNodeSteps;
      if (node.open <= 1 || node.count <= node.open) continue;  // reduced to a leaf
      if (bound <= best_value_) return kLowest;
      if (stop()) return bound;
      // With the item of most worth first: its absence lowers the bound the most, so the second branch is short.
      std::size_t branch = 0;
      for (std::size_t k = 1; k < node.count; ++k) branch = worth_[k] > worth_[branch] ? k : branch;
      Node& child = levels_[level + 1];
      copy(child, node);
      std::fill_n(keep_.begin(), child.count, 1);
      keep_[branch] = 2;
      include_and_compact(child);
      explore(level + 1, kNodeSteps);
      if (stopped_) return bound;
      std::fill_n(keep_.begin(), node.count, 1);
      keep_[branch] = 0;
      compact(node);
    }
  }

  /// Only what is in use: rows keep the width of their own.
  void copy(Node& to, const Node& from) {
    to.count = to.width = from.count;
    to.open = from.open;
    to.at_most = from.at_most;
    to.value = from.value;
    to.left = from.left;
    to.mu = from.mu;
    const auto count = static_cast<std::ptrdiff_t>(from.count);
    to.item.assign(from.item.begin(), from.item.begin() + count);
    to.gain.assign(from.gain.begin(), from.gain.begin() + count);
    to.cost.assign(from.cost.begin(), from.cost.begin() + count);
    to.share = from.share;
    to.coverers = from.coverers;
    to.in = from.in;
    to.split.resize(from.count * from.count);
    for (std::size_t k = 0; k < from.count; ++k) {
      std::copy_n(from.split.data() + k * from.width, from.count, to.split.data() + k * to.width);
    }
  }

  const EvidenceProblem& problem_;
  Control& control_;
  const std::uint64_t node_limit_, work_limit_;
  std::uint64_t work_ = 0;
  std::vector<Entry> ranked_;
  std::vector<Node> levels_;
  std::vector<std::int64_t> inner_, worth_, top_;
  std::vector<std::int32_t> partner_, top_item_, slope_, in_top_, map_, all_;
  std::vector<std::uint8_t> dirty_, keep_;
  std::vector<std::pair<std::int32_t, std::int32_t>> one_sided_;
  std::size_t picked_ = 0;
  std::int64_t runner_up_ = kLowest, largest_pair_ = 0;
  std::vector<std::int32_t> best_;
  std::int64_t best_value_ = 0, bound_ = std::numeric_limits<std::int64_t>::max();
  std::uint64_t nodes_ = 0, dual_steps_ = 0;
  bool stopped_ = false;
};

}  // namespace

EvidenceAnswer exact_search(const EvidenceProblem& problem, const ProofOptions& options, Control& control) {
  EvidenceAnswer answer = swap_search(problem, options.start, control);
  answer.bounded = true;
  if (problem.size() == 0 || problem.view().max_items == 0) {
    answer.proved = true;
    return answer;
  }
  Search search(problem, control, options.node_limit, options.work_limit);
  search.start_from(answer.selection);
  search.run();
  answer.selection.assign(search.best().begin(), search.best().end());
  std::sort(answer.selection.begin(), answer.selection.end());
  answer.value = problem.evaluate(answer.selection);
  answer.proved = search.proved();
  answer.nodes = search.nodes();
  answer.dual_steps = search.dual_steps();
  answer.work = search.work();
  const double bound = static_cast<double>(search.bound()) * problem.granule() + problem.max_error();
  answer.upper_bound = answer.proved ? answer.value : std::max(answer.value, bound);
  answer.stopped = control.reason();
  answer.proof_seconds = control.seconds() - answer.search_seconds;
  return answer;
}

double dual_bound(const EvidenceProblem& problem, double target, std::size_t steps, Control& control) {
  if (problem.size() == 0 || problem.view().max_items == 0) return 0;
  Search search(problem, control, 0, 0);
  const auto aim = static_cast<std::int64_t>(target / problem.granule());
  return static_cast<double>(search.bound_only(static_cast<int>(steps), aim)) * problem.granule() + problem.max_error();
}

}  // namespace isinglass
