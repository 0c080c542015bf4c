#include "isinglass/polish.hpp"

#include <algorithm>
#include <span>

namespace isinglass {
namespace {

constexpr Item kNone = -1;

class Exchange {
 public:
  Exchange(const PackingProblem& problem, std::vector<Item>& selection, Control& control)
      : problem_(problem),
        selection_(selection),
        control_(control),
        pinned_(problem.view().pinned.size()),
        in_set_(problem.size(), 0) {
    for (Item item : selection_) in_set_[static_cast<std::size_t>(item)] = 1;
    first_gain_.assign(problem.size(), 0.0);
    PackingState alone;
    alone.reset(problem);
    for (Item item : problem.view().pinned) alone.add(item);
    collect([](Item) { return true; });
    evaluate_candidates(alone);
    for (std::size_t k = 0; k < candidates_.size(); ++k) {
      first_gain_[static_cast<std::size_t>(candidates_[k])] = gains_[k];
    }
  }

  void run() {
    fill();
    // Each position is tried once without success before the search ends.
    std::size_t idle = 0, position = selection_.size();
    while (idle < selection_.size() - pinned_ && !control_.stop()) {
      position = position == pinned_ ? selection_.size() - 1 : position - 1;
      if (improve(position)) {
        fill();
        idle = 0;
        position = selection_.size();
      } else {
        ++idle;
      }
    }
  }

 private:
  /// State and purse of the selection without one of its items.
  void start(Item without) {
    state_.reset(problem_);
    purse_.reset(problem_);
    for (Item item : selection_) {
      if (item != without) add(item);
    }
  }

  void add(Item item) {
    state_.add(item);
    purse_.spend(item);
  }

  template <class Wanted>
  void collect(Wanted wanted) {
    candidates_.clear();
    for (std::size_t i = 0; i < problem_.size(); ++i) {
      const auto item = static_cast<Item>(i);
      if (problem_.eligible()[i] && !in_set_[i] && wanted(item)) candidates_.push_back(item);
    }
  }

  void evaluate_candidates(const PackingState& state) {
    constexpr std::size_t kSlice = 256;  // between two looks at the clock
    gains_.assign(candidates_.size(), 0.0);
    for (std::size_t begin = 0; begin < candidates_.size() && !control_.stop(); begin += kSlice) {
      const std::size_t count = std::min(kSlice, candidates_.size() - begin);
      state.gains(std::span(candidates_).subspan(begin, count), gains_.data() + begin);
    }
  }

  bool improve(std::size_t position) {
    const Item leaving = selection_[position];
    start(leaving);
    const double loss = state_.gain(leaving) + 2 * problem_.gain_slack();
    collect([&](Item item) { return first_gain_[static_cast<std::size_t>(item)] > loss && purse_.fits(item); });
    evaluate_candidates(state_);
    Item best = kNone;
    double best_gain = loss;
    for (std::size_t k = 0; k < candidates_.size(); ++k) {
      if (gains_[k] > best_gain) {
        best = candidates_[k];
        best_gain = gains_[k];
      }
    }
    if (best == kNone) return false;
    selection_.erase(selection_.begin() + static_cast<std::ptrdiff_t>(position));
    selection_.push_back(best);
    in_set_[static_cast<std::size_t>(leaving)] = 0;
    in_set_[static_cast<std::size_t>(best)] = 1;
    return true;
  }

  /// Spends what is left by density.
  void fill() {
    start(kNone);
    while (selection_.size() < problem_.view().max_items && !control_.stop()) {
      collect([&](Item item) { return purse_.fits(item); });
      evaluate_candidates(state_);
      Item best = kNone;
      double best_density = 0;
      for (std::size_t k = 0; k < candidates_.size(); ++k) {
        const double density = gains_[k] / problem_.view().costs[static_cast<std::size_t>(candidates_[k])];
        if (density > best_density) {
          best = candidates_[k];
          best_density = density;
        }
      }
      if (best == kNone) return;
      selection_.push_back(best);
      in_set_[static_cast<std::size_t>(best)] = 1;
      add(best);
    }
  }

  const PackingProblem& problem_;
  std::vector<Item>& selection_;
  Control& control_;
  const std::size_t pinned_;
  std::vector<std::uint8_t> in_set_;
  std::vector<double> first_gain_;  // beside the pinned items alone: no later gain exceeds it
  PackingState state_;
  Purse purse_;
  std::vector<Item> candidates_;
  std::vector<double> gains_;
};

}  // namespace

void polish(const PackingProblem& problem, std::vector<Item>& selection, Control& control) {
  Exchange(problem, selection, control).run();
}

std::vector<double> replay(const PackingProblem& problem, std::vector<Item>& selection) {
  const std::size_t pinned = problem.view().pinned.size();
  PackingState state;
  state.reset(problem);
  std::vector<double> gains;
  std::size_t kept = 0;
  for (std::size_t k = 0; k < selection.size(); ++k) {
    const double gain = state.gain(selection[k]);
    if (k >= pinned && gain <= 0) continue;
    state.add(selection[k]);
    gains.push_back(gain);
    selection[kept++] = selection[k];
  }
  selection.resize(kept);
  return gains;
}

}  // namespace isinglass
