// The relaxation behind the concave bound: tangents of the terms' concave functions, and steps of conditional gradient.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "isinglass/bounds.hpp"
#include "isinglass/control.hpp"
#include "isinglass/packing.hpp"
#include "packing_rows.hpp"

namespace isinglass {

/// The relaxed problem at a fractional point y: the sums that the concave terms take, the multipliers of their
/// tangents there, and the linear function above F that these give.
class Relaxation {
 public:
  explicit Relaxation(const PackingProblem& problem)
      : problem_(problem),
        view_(problem.view()),
        mass_(problem.representation_scale() > 0 ? padded(view_.num_targets()) : 0, 0.0),
        covered_(problem.coverage_scale() > 0 ? view_.term_weights.size() : 0, 0.0),
        group_(problem.diversity_scale() > 0 ? view_.num_groups : 0, 0.0),
        y_(view_.n, 0.0) {}

  void clear() {
    for (std::vector<double>* sums : {&mass_, &covered_, &group_, &y_}) std::fill(sums->begin(), sums->end(), 0.0);
    relevance_ = 0;
  }

  void add(Item item, double amount) {
    const auto j = static_cast<std::size_t>(item);
    y_[j] += amount;
    if (problem_.relevance_scale() > 0) relevance_ += amount * view_.relevance[j];
    if (!mass_.empty()) add_row(problem_, j, amount, mass_.data());
    if (!covered_.empty()) for_terms(view_, j, [&](std::size_t term, std::size_t) { covered_[term] += amount; });
    if (!group_.empty()) group_[static_cast<std::size_t>(view_.groups[j])] += amount * view_.relevance[j];
  }

  double amount(Item item) const { return y_[static_cast<std::size_t>(item)]; }

  /// this <- other, of the same problem; keeps its memory.
  void assign(const Relaxation& other) {
    mass_ = other.mass_;
    covered_ = other.covered_;
    group_ = other.group_;
    y_ = other.y_;
    relevance_ = other.relevance_;
  }

  /// this <- a + step (b - a); a may be this.
  void blend(const Relaxation& a, const Relaxation& b, double step) {
    const auto mix = [step](std::vector<double>& out, const std::vector<double>& x, const std::vector<double>& y) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = x[i] + step * (y[i] - x[i]);
    };
    mix(mass_, a.mass_, b.mass_);
    mix(covered_, a.covered_, b.covered_);
    mix(group_, a.group_, b.group_);
    mix(y_, a.y_, b.y_);
    relevance_ = a.relevance_ + step * (b.relevance_ - a.relevance_);
  }

 private:
  friend class Tangent;
  friend class LineSearch;

  const PackingProblem& problem_;
  const PackingView& view_;
  std::vector<double> mass_, covered_, group_, y_;
  double relevance_ = 0;
};

/// Where the tangent of a root is taken, at the least: at 0 it would be vertical. Any positive point is valid; a share
/// of the mean mass keeps groups that are nearly empty from ruling every step.
inline double least_mass(const std::vector<double>& mass, double width) {
  double total = 0;
  for (double m : mass) total += m;
  return std::max(1e-12, width * total / static_cast<double>(mass.size()));
}

/// Slope of min(x, cap), smoothed over cap +- width cap. Any value in [0, 1] gives a valid tangent.
inline double saturation_slope(double x, double cap, double width) {
  if (cap <= 0) return 0;
  return std::clamp(0.5 + (cap - x) / (2 * width * cap), 0.0, 1.0);
}

/// The linear function above F that touches the relaxation at a point: `constant + sum of coefficient`. Half made, and
/// no bound, once the control has stopped.
class Tangent {
 public:
  Tangent(const PackingProblem& problem, Control& control)
      : problem_(problem),
        view_(problem.view()),
        control_(control),
        coefficient_(padded(view_.n), 0.0),
        inverse_cap_(problem.representation_scale() > 0 ? view_.num_targets() : 0),
        threshold_(problem.facility_scale() > 0 ? padded(view_.num_targets()) : 0, 0.0f) {
    for (std::size_t i = 0; i < inverse_cap_.size(); ++i) {
      inverse_cap_[i] = problem.cap()[i] > 0 ? 1 / problem.cap()[i] : 0;
    }
  }

  const std::vector<double>& coefficient() const { return coefficient_; }

  /// Bounds the user's terms by their values at `set` and the gains there (which is above them, where they are
  /// submodular and monotone): their part of every tangent from now on.
  void linearise_user_terms(std::span<const Item> set) {
    if (view_.terms.empty()) return;
    std::vector<std::int64_t> selected(set.begin(), set.end());
    std::sort(selected.begin(), selected.end());
    user_constant_ = user_value(view_, set);
    user_gain_.assign(view_.n, 0.0);
    for (std::size_t j = 0; j < view_.n; ++j) {
      const auto item = static_cast<std::int64_t>(j);
      if (std::binary_search(selected.begin(), selected.end(), item)) continue;
      for (const UserTerm& term : view_.terms) user_gain_[j] += term.weight * term(item, selected);
    }
  }

  /// Sets the coefficients, returns the constant.
  double at(const Relaxation& point, double width) {
    std::fill(coefficient_.begin(), coefficient_.end(), 0.0);
    double constant = 0;
    if (!point.mass_.empty()) {
      const double scale = problem_.representation_scale();
      // From embeddings a column is dear: then what all add comes from the sums of rows, less what the saturated lack.
      const bool dear = view_.embeddings != nullptr;
      for (std::size_t j = 0; dear && j < view_.n; ++j) coefficient_[j] = scale * problem_.degree()[j];
      std::vector<std::size_t> saturated;
      std::vector<double> lacking;
      weight_.resize(view_.num_targets());
      const double steepness = 1 / (2 * width);
      for (std::size_t i = 0; i < view_.num_targets(); ++i) {
        const double cap = problem_.cap()[i];
        const double slope = std::clamp(0.5 + (1 - point.mass_[i] * inverse_cap_[i]) * steepness, 0.0, 1.0);
        constant += (1 - slope) * cap;
        weight_[i] = cap > 0 ? scale * slope : 0;
        if (dear && slope < 1) {
          saturated.push_back(i);
          lacking.push_back(scale * (slope - 1));
        }
      }
      if (!saturated.empty()) view_.embeddings->add_columns(saturated, lacking, coefficient_.data(), control_);
      // The matrix is symmetric: row i is what each item adds to i.
      for (std::size_t i = 0; !dear && i < view_.num_targets(); i += kRowsBetween) {
        if (control_.stop()) return 0;
        const std::size_t count = std::min(kRowsBetween, view_.num_targets() - i);
        if (view_.similarity != nullptr) {
          packing_kernels().accumulate_rows(problem_.row(i), problem_.row_length(), weight_.data() + i, count,
                                            coefficient_.data(), problem_.row_length());
          continue;
        }
        for (std::size_t k = i; k < i + count; ++k) {
          if (weight_[k] > 0) add_row(problem_, k, weight_[k], coefficient_.data());
        }
      }
      constant *= scale;
    }
    if (problem_.relevance_scale() > 0) {
      for (std::size_t j = 0; j < view_.n; ++j) coefficient_[j] += problem_.relevance_scale() * view_.relevance[j];
    }
    if (!point.covered_.empty()) {
      slope_.resize(point.covered_.size());
      for (std::size_t t = 0; t < slope_.size(); ++t) {
        const double full = problem_.coverage_scale() * view_.term_weights[t];
        const double share = saturation_slope(point.covered_[t], 1, width);
        slope_[t] = full * share;
        constant += full * (1 - share);
      }
      for (std::size_t j = 0; j < view_.n; ++j) {
        for_terms(view_, j, [&](std::size_t term, std::size_t) { coefficient_[j] += slope_[term]; });
      }
    }
    if (!point.group_.empty()) {
      slope_.resize(point.group_.size());
      const double least = least_mass(point.group_, width);
      for (std::size_t g = 0; g < slope_.size(); ++g) {
        const double root = std::sqrt(std::max(point.group_[g], least));
        slope_[g] = problem_.diversity_scale() / (2 * root);
        constant += problem_.diversity_scale() * root / 2;
      }
      for (std::size_t j = 0; j < view_.n; ++j) {
        coefficient_[j] += slope_[static_cast<std::size_t>(view_.groups[j])] * view_.relevance[j];
      }
    }
    if (!threshold_.empty()) constant += facility(point);
    for (std::size_t j = 0; j < user_gain_.size(); ++j) coefficient_[j] += user_gain_[j];
    return constant + user_constant_;
  }

 private:
  /// max_{j in S} s_ij <= t_i + sum_{j in S} max(0, s_ij - t_i) for any t_i >= 0: best where the y of larger
  /// similarities add up to 1.
  double facility(const Relaxation& point) {
    std::vector<Item> support;
    for (std::size_t j = 0; j < view_.n; ++j) {
      if (point.y_[j] > 0) support.push_back(static_cast<Item>(j));
    }
    if (view_.embeddings != nullptr) {
      embedded_thresholds(point, support);
    } else {
      thresholds(point, support);
    }
    double constant = 0;
    for (float threshold : threshold_) constant += problem_.facility_scale() * static_cast<double>(threshold);

    std::vector<Item> items;
    for (std::size_t begin = 0; begin < view_.n; begin += kRowsBetween) {
      if (control_.stop()) return 0;
      const std::size_t end = std::min(begin + kRowsBetween, view_.n);
      if (view_.embeddings != nullptr) {
        items.clear();
        for (std::size_t j = begin; j < end; ++j) items.push_back(static_cast<Item>(j));
        for_embedded_rows(view_, items, rows_, [&](std::size_t k, const float* row) {
          add_facility(begin + k, packing_kernels().facility_gain(row, threshold_.data(), threshold_.size()));
        });
        continue;
      }
      for (std::size_t j = begin; j < end; ++j) {
        double gained = 0;
        if (view_.similarity != nullptr) {
          gained = packing_kernels().facility_gain(problem_.row(j), threshold_.data(), problem_.row_length());
        } else {
          for_row(view_, j, [&](std::size_t i, float value, std::size_t) {
            gained += std::max(0.0, static_cast<double>(value) - static_cast<double>(threshold_[i]));
          });
        }
        add_facility(j, gained);
      }
    }
    return constant;
  }

  void add_facility(std::size_t item, double gained) { coefficient_[item] += problem_.facility_scale() * gained; }

  void thresholds(const Relaxation& point, std::span<const Item> support) {
    std::vector<float> row(view_.n, 0.0f);
    for (std::size_t i = 0; i < view_.n; ++i) {
      if (i % kRowsBetween == 0 && control_.stop()) return;
      for_row(view_, i, [&](std::size_t j, float value, std::size_t) { row[j] = value; });
      near_.clear();
      for (Item j : support) near_.emplace_back(row[static_cast<std::size_t>(j)], point.amount(j));
      threshold_[i] = where_whole();
      for_row(view_, i, [&](std::size_t j, float, std::size_t) { row[j] = 0; });
    }
  }

  void embedded_thresholds(const Relaxation& point, std::span<const Item> support) {
    const Embeddings& embeddings = *view_.embeddings;
    std::vector<std::size_t> items;
    std::vector<float> units(support.size() * embeddings.dimension()), block(support.size() * kLanes);
    for (Item j : support) {
      items.push_back(view_.row_of(static_cast<std::size_t>(j)));
      embeddings.unit(items.back(), units.data() + (items.size() - 1) * embeddings.dimension());
    }
    for (std::size_t p = 0; p < embeddings.num_panels() && !control_.stop(); ++p) {
      embeddings.with_panel(items, units.data(), p, block.data());
      for (std::size_t c = 0; c < kLanes; ++c) {
        near_.clear();
        for (std::size_t k = 0; k < items.size(); ++k) {
          near_.emplace_back(block[k * kLanes + c], point.amount(support[k]));
        }
        threshold_[p * kLanes + c] = where_whole();
      }
    }
  }

  /// The similarity in `near_` at which the amounts of the larger ones add up to 1, or 0.
  float where_whole() {
    std::erase_if(near_, [](const auto& entry) { return entry.first <= 0; });
    std::sort(near_.begin(), near_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    double share = 0;
    for (const auto& [value, amount] : near_) {
      share += amount;
      if (share >= 1) return value;
    }
    return 0;
  }

  const PackingProblem& problem_;
  const PackingView& view_;
  Control& control_;
  std::vector<double> coefficient_, slope_, weight_, inverse_cap_;
  std::vector<float> threshold_, rows_;
  std::vector<double> user_gain_;
  double user_constant_ = 0;
  std::vector<std::pair<float, double>> near_;  // similarities to a target, and how much of each item is in
};

/// Where along a segment the smoothed relaxation is largest, found from the sign of its slope.
class LineSearch {
 public:
  explicit LineSearch(const PackingProblem& problem) : problem_(problem) {}

  double best_step(const Relaxation& from, const Relaxation& to, double width) {
    prepare(from, to, width);
    least_ = from.group_.empty() ? 1 : least_mass(from.group_, width);
    double low = 0, high = 1, low_slope = slope(from, to, low, width), high_slope = slope(from, to, high, width);
    if (low_slope <= 0) return 0;
    if (high_slope >= 0) return 1;
    // Regula falsi: the slope falls steadily, so a few secants come close enough for a step length.
    double step = 0;
    for (int k = 0; k < 3; ++k) {
      step = low + (high - low) * low_slope / (low_slope - high_slope);
      const double here = slope(from, to, step, width);
      if (here > 0) {
        low = step;
        low_slope = here;
        high_slope /= 2;  // Illinois: keeps the other end moving
      } else {
        high = step;
        high_slope = here;
        low_slope /= 2;
      }
    }
    return step;
  }

 private:
  void prepare(const Relaxation& from, const Relaxation& to, double width) {
    const std::size_t n = from.mass_.size();
    direction_.resize(n);
    scale_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      direction_[i] = to.mass_[i] - from.mass_[i];
      const double cap = problem_.cap()[i];
      scale_[i] = cap > 0 ? 1 / (2 * width * cap) : 0;
    }
    mass_.clear();
    moving_.clear();
    for (std::size_t g = 0; g < from.group_.size(); ++g) {
      if (to.group_[g] == from.group_[g]) continue;
      mass_.push_back(from.group_[g]);
      moving_.push_back(to.group_[g] - from.group_[g]);
    }
    rise_.resize(moving_.size());
  }

  double slope(const Relaxation& from, const Relaxation& to, double step, double width) {
    double total = problem_.relevance_scale() * (to.relevance_ - from.relevance_);
    if (!direction_.empty()) {
      total += problem_.representation_scale() *
               packing_kernels().saturation_slope(from.mass_.data(), direction_.data(), problem_.cap().data(),
                                                  scale_.data(), step, direction_.size());
    }
    for (std::size_t t = 0; t < from.covered_.size(); ++t) {
      const double d = to.covered_[t] - from.covered_[t];
      if (d == 0) continue;
      total += problem_.coverage_scale() * problem_.view().term_weights[t] *
               saturation_slope(from.covered_[t] + step * d, 1, width) * d;
    }
    // Roots and quotients of all first: then they do not wait for the sum, and come in vectors.
    for (std::size_t k = 0; k < moving_.size(); ++k) {
      rise_[k] = moving_[k] / std::sqrt(std::max(mass_[k] + step * moving_[k], least_));
    }
    for (double rise : rise_) total += problem_.diversity_scale() / 2 * rise;
    return total;
  }

  const PackingProblem& problem_;
  std::vector<double> direction_, scale_;
  std::vector<double> mass_, moving_, rise_;  // of the groups whose mass changes: now, by how much, and their slopes
  double least_ = 1;
};

/// What a bound covers: the sets that hold `fixed` and else only items of `open`.
struct Scope {
  std::span<const Item> fixed, open;
};

/// Conditional gradient (Frank, Wolfe 1956) on the smoothed relaxation of a scope.
class Descent {
 public:
  Descent(const PackingProblem& problem, Control& control)
      : problem_(problem), tangent_(problem, control), line_(problem), corner_(problem), control_(control) {}

  /// Of the tangent of the last step: F(S) <= constant + sum of coefficient over S.
  double constant() const { return constant_; }
  const std::vector<double>& coefficient() const { return tangent_.coefficient(); }
  void linearise_user_terms(std::span<const Item> set) { tangent_.linearise_user_terms(set); }

  /// The bound that the tangent at a point gives, without slack for rounding; moves the point. `knapsack` holds what is
  /// left beside `scope.fixed`. `age` counts the steps that led to the point. Infinite once the control has stopped.
  double step(const Scope& scope, FractionalKnapsack& knapsack, Relaxation& at, int age) {
    const double width = std::max(0.02, 0.4 / (1 + age));
    constant_ = tangent_.at(at, width);
    if (control_.reason() != StopReason::none) return std::numeric_limits<double>::infinity();
    double bound = constant_;
    for (Item item : scope.fixed) bound += coefficient()[static_cast<std::size_t>(item)];
    knapsack.clear();
    for (Item item : scope.open) knapsack.push(item, coefficient()[static_cast<std::size_t>(item)]);
    bound += knapsack.solve(&vertex_);

    corner_.clear();
    for (Item item : scope.fixed) corner_.add(item, 1);
    for (const auto& [item, share] : vertex_) corner_.add(item, share);
    const bool blind = problem_.facility_scale() > 0 || !problem_.view().terms.empty();  // no slope to search along
    const double move = blind ? 2.0 / (age + 2) : line_.best_step(at, corner_, width);
    at.blend(at, corner_, move);
    return bound;
  }

 private:
  const PackingProblem& problem_;
  Tangent tangent_;
  LineSearch line_;
  Relaxation corner_;
  Control& control_;
  std::vector<std::pair<Item, double>> vertex_;
  double constant_ = 0;
};

}  // namespace isinglass
