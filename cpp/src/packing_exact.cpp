#include "isinglass/packing_exact.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "isinglass/bounds.hpp"
#include "isinglass/polish.hpp"
#include "relaxation.hpp"

namespace isinglass {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t index(Item item) { return static_cast<std::size_t>(item); }

class Search {
 public:
  Search(const PackingProblem& problem, const BranchOptions& options, Control& control)
      : problem_(problem),
        options_(options),
        control_(control),
        slack_(problem.gain_slack() * static_cast<double>(problem.size() + 1)),
        descent_(problem, control) {}

  Packing run() {
    const GreedyOptions start{.plus_max = true, .high_effort = true, .threads = options_.threads};
    Packing out = greedy(problem_, start, CertificateLevel::tight, control_);
    best_ = out.selection;
    best_value_ = out.value;
    if (control_.reason() == StopReason::none) {
      Node& root = node(0);
      for (Item item : problem_.view().pinned) include(root, item);
      for (std::size_t i = 0; i < problem_.size(); ++i) {
        if (problem_.eligible()[i]) root.open.push_back(static_cast<Item>(i));
      }
      root.bound = out.bound.value;
      for (Item item : out.selection) root.point.add(item, 1);
      descent_.linearise_user_terms(out.selection);
      explore(0);
      out.selection = best_;
      out.gains = replay(problem_, out.selection);
      recount(problem_, out);
      const double none_better = std::max(out.value, best_value_) + 2 * slack_;
      out.proved = open_bound_ <= none_better;
      out.bound.lower_to(std::max(open_bound_, none_better), BoundMethod::exact);
      out.bound.value = std::max(out.bound.value, out.value);
    }
    out.nodes = nodes_;
    out.gain_evaluations += evaluations_;
    out.stopped = control_.reason();
    out.search_seconds = control_.seconds() - out.certificate_seconds;
    return out;
  }

 private:
  // Steps of conditional gradient in a node, from the point of its parent.
  static constexpr int kSteps = 12;
  static constexpr int kAge = 20;  // of a point that a parent left: its widths and steps are those of a late one

  struct Node {
    explicit Node(const PackingProblem& problem) : point(problem) {}

    PackingState state;
    Purse purse;
    double value = 0;
    double bound = 0;           // of what is not explored yet
    std::vector<Item> fixed;    // the set
    std::vector<Item> open;     // what may join it
    std::vector<double> gain;   // of each in `open`
    std::vector<double> worth;  // by the last bound
    Relaxation point;
  };

  Node& node(std::size_t depth) {
    if (depth == pool_.size()) pool_.push_back(std::make_unique<Node>(problem_));
    Node& fresh = *pool_[depth];
    if (depth == 0) {
      fresh.state.reset(problem_);
      fresh.purse.reset(problem_);
    }
    return fresh;
  }

  void include(Node& node, Item item) {
    node.value += node.state.gain(item);
    node.state.add(item);
    node.purse.spend(item);
    node.fixed.push_back(item);
    ++evaluations_;
  }

  bool stop() {
    if (stopped_) return true;
    stopped_ = nodes_ >= options_.node_limit || control_.stop();
    return stopped_;
  }

  double cutoff() const { return best_value_ + 2 * slack_; }

  void offer(const Node& node, std::span<const Item> more, double value) {
    if (value <= best_value_) return;
    best_value_ = value;
    best_ = node.fixed;
    best_.insert(best_.end(), more.begin(), more.end());
  }

  /// Keeps the items for which keep(position) holds.
  template <class Keep>
  static void filter(Node& node, Keep keep) {
    std::size_t kept = 0;
    for (std::size_t k = 0; k < node.open.size(); ++k) {
      if (!keep(k)) continue;
      node.open[kept] = node.open[k];
      node.gain[kept] = node.gain[k];
      node.worth[kept] = node.worth[k];
      ++kept;
    }
    node.open.resize(kept);
    node.gain.resize(kept);
    node.worth.resize(kept);
  }

  void refresh(Node& node) {
    node.gain.resize(node.open.size());
    node.worth.assign(node.open.size(), 0.0);
    node.state.gains(node.open, node.gain.data());
    evaluations_ += node.open.size();
    const bool room = node.fixed.size() < problem_.view().max_items;
    filter(node, [&](std::size_t k) { return room && node.gain[k] > 0 && node.purse.fits(node.open[k]); });
  }

  /// Whether all that may join the set fits together: then that is the best of the node.
  bool take_all(const Node& node) {
    if (node.fixed.size() + node.open.size() > problem_.view().max_items) return false;
    Purse purse = node.purse;
    for (Item item : node.open) {
      if (!purse.fits(item)) return false;
      purse.spend(item);
    }
    std::vector<Item> all = node.fixed;
    all.insert(all.end(), node.open.begin(), node.open.end());
    offer(node, node.open, evaluate(problem_, all));
    return true;
  }

  /// Takes over a bound and its prices; false where nothing better can be left.
  template <class Gain>
  bool lower(Node& node, double bound, Gain gain) {
    node.bound = std::min(node.bound, bound);
    if (node.bound <= cutoff()) return false;
    for (std::size_t k = 0; k < node.open.size(); ++k) node.worth[k] = knapsack_.worth(node.open[k], gain(k));
    filter(node, [&](std::size_t k) { return node.worth[k] >= 0 || bound + node.worth[k] > cutoff(); });
    last_bound_ = bound;
    return true;
  }

  bool online(Node& node) {
    knapsack_.reset(problem_, node.fixed);
    for (std::size_t k = 0; k < node.open.size(); ++k) knapsack_.push(node.open[k], node.gain[k]);
    return lower(node, node.value + knapsack_.solve() + slack_, [&](std::size_t k) { return node.gain[k]; });
  }

  bool concave(Node& node) {
    knapsack_.reset(problem_, node.fixed);
    double before = kInfinity;
    for (int step = 0; step < kSteps && !control_.stop(); ++step) {
      const double bound = descent_.step({node.fixed, node.open}, knapsack_, node.point, kAge + step) + slack_;
      if (control_.reason() != StopReason::none) return true;
      if (!lower(node, bound, [&](std::size_t k) { return descent_.coefficient()[index(node.open[k])]; })) return false;
      if (node.open.empty()) return true;
      // Give up where as many steps again would not close the gap at this pace.
      if (step >= 2 && (before - bound) * kSteps < bound - cutoff()) return true;
      before = bound;
    }
    return true;
  }

  void explore(std::size_t depth) {
    Node& here = *pool_[depth];
    offer(here, {}, here.value);
    refresh(here);
    for (;;) {
      if (here.open.empty() || here.bound <= cutoff()) return;
      if (stop()) break;
      ++nodes_;
      if (take_all(here) || !online(here) || here.open.empty()) return;
      const auto best_single = std::max_element(here.gain.begin(), here.gain.end()) - here.gain.begin();
      offer(here, std::span(here.open).subspan(static_cast<std::size_t>(best_single), 1),
            here.value + here.gain[static_cast<std::size_t>(best_single)]);
      if (!concave(here) || here.open.empty()) return;
      if (stop()) break;

      const auto branch =
          static_cast<std::size_t>(std::max_element(here.worth.begin(), here.worth.end()) - here.worth.begin());
      const Item item = here.open[branch];
      const double without = std::min(here.bound, last_bound_ - std::max(0.0, here.worth[branch]));
      const std::size_t place = branch;
      filter(here, [&](std::size_t k) { return k != place; });

      Node& child = node(depth + 1);
      child.state = here.state;
      child.purse = here.purse;
      child.value = here.value;
      child.bound = here.bound;
      child.fixed = here.fixed;
      child.open = here.open;
      child.point.assign(here.point);
      child.point.add(item, 1 - child.point.amount(item));
      include(child, item);
      explore(depth + 1);

      here.bound = without;
      here.point.add(item, -here.point.amount(item));
    }
    open_bound_ = std::max(open_bound_, here.bound);
  }

  const PackingProblem& problem_;
  const BranchOptions options_;
  Control& control_;
  const double slack_;
  Descent descent_;
  FractionalKnapsack knapsack_;
  std::vector<std::unique_ptr<Node>> pool_;
  std::vector<Item> best_;
  double best_value_ = 0, last_bound_ = 0;
  double open_bound_ = -kInfinity;
  std::size_t nodes_ = 0, evaluations_ = 0;
  bool stopped_ = false;
};

}  // namespace

Packing branch_and_bound(const PackingProblem& problem, const BranchOptions& options, Control& control) {
  return Search(problem, options, control).run();
}

}  // namespace isinglass
