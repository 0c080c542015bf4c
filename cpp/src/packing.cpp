#include "isinglass/packing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "isinglass/packing_kernels.hpp"
#include "isinglass/parallel.hpp"
#include "packing_rows.hpp"

namespace isinglass {
namespace {

double ratio_or_zero(double weight, double normaliser) { return normaliser > 0 ? weight / normaliser : 0; }

/// Adds `value` to a non-overlapping expansion, exactly (Shewchuk 1997, "Adaptive precision floating-point
/// arithmetic").
void grow_expansion(std::vector<double>& partials, double value) {
  std::size_t kept = 0;
  for (double partial : partials) {
    if (std::fabs(value) < std::fabs(partial)) std::swap(value, partial);
    const double high = value + partial;
    const double low = partial - (high - value);
    if (low != 0) partials[kept++] = low;
    value = high;
  }
  partials.resize(kept);
  partials.push_back(value);
}

/// The double nearest to an expansion's exact sum, ties to even.
double rounded(const std::vector<double>& partials) {
  if (partials.empty()) return 0;
  std::size_t k = partials.size();
  double high = partials[--k], low = 0;
  while (k > 0) {
    const double x = high, y = partials[--k];
    high = x + y;
    low = y - (high - x);
    if (low != 0) break;
  }
  // `low` lost to rounding: what is still below it decides a tie.
  if (k > 0 && ((low < 0 && partials[k - 1] < 0) || (low > 0 && partials[k - 1] > 0))) {
    const double twice = low * 2, x = high + twice;
    if (twice == x - high) high = x;
  }
  return high;
}

}  // namespace

PackingProblem::PackingProblem(const PackingView& view, int threads, Control* control) : view_(view) {
  const std::size_t n = view.n;
  double largest_degree = 0;
  double largest_gain = 0;  // of any item, summed over the terms: what rounding errors are relative to

  if (!view.relevance.empty()) {
    const double total = sum(view.relevance);
    relevance_scale_ = ratio_or_zero(view.relevance_weight, total);
    double diversity_total = std::sqrt(total);
    if (view.unit_normalisation && !view.groups.empty()) {
      std::vector<double> mass(view.num_groups, 0.0);
      for (std::size_t i = 0; i < n; ++i) mass[static_cast<std::size_t>(view.groups[i])] += view.relevance[i];
      LaneSum s;
      for (std::size_t g = 0; g < view.num_groups; ++g) s.add(g, std::sqrt(mass[g]));
      diversity_total = s.total();
    }
    if (!view.groups.empty()) diversity_scale_ = ratio_or_zero(view.diversity_weight, diversity_total);
    largest_gain += relevance_scale_ * total + diversity_scale_ * std::sqrt(total);
  }
  if (!view.coverage.row_start.empty()) {
    const double total = sum(view.term_weights);
    coverage_scale_ = ratio_or_zero(view.coverage_weight, total);
    largest_gain += coverage_scale_ * total;
    const bool unit = std::all_of(view.term_weights.begin(), view.term_weights.end(), [](double w) { return w == 1; });
    if (unit && view.term_weights.size() <= 64) {
      coverage_mask_.assign(n, 0);
      for (std::size_t i = 0; i < n; ++i) {
        for_terms(view, i, [&](std::size_t term, std::size_t) { coverage_mask_[i] |= std::uint64_t{1} << term; });
      }
    }
  }
  if (view.similarity != nullptr) {
    constexpr std::size_t kCopyUpTo = 1024;  // rows; beyond, the short last block no longer matters
    rows_ = view.similarity;
    row_length_ = n;
    if (n % kLanes != 0 && n <= kCopyUpTo) {
      row_length_ = padded(n);
      padded_rows_.assign(n * row_length_, 0.0f);
      for (std::size_t i = 0; i < n; ++i) {
        std::copy_n(view.similarity + i * n, n, padded_rows_.data() + i * row_length_);
      }
      rows_ = padded_rows_.data();
    }
  }
  if (view.has_similarity()) {
    if (view.representation_weight > 0) {
      cap_.assign(padded(n), 0.0);
      if (view.sparse_similarity.row_start.empty()) {
        sum_rows(threads, control);
        for (std::size_t i = 0; i < n; ++i) {
          cap_[i] = view.saturation * degree_[i];
          if (cap_[i] < peak_[i]) tight_[i / kLanes] = 1;
          largest_degree = std::max(largest_degree, degree_[i]);
        }
      } else {
        for (std::size_t i = 0; i < n; ++i) {
          LaneSum s;
          for_row(view, i, [&](std::size_t, float value, std::size_t k) { s.add(k, static_cast<double>(value)); });
          cap_[i] = view.saturation * s.total();
        }
      }
      total_cap_ = sum(std::span<const double>(cap_).first(n));
      representation_scale_ = ratio_or_zero(view.representation_weight, total_cap_);
      // A gain is a degree less its excess, so it rounds like the degree.
      largest_gain += representation_scale_ * (total_cap_ + 2 * largest_degree);
    }
    if (view.facility_location_weight > 0) {
      LaneSum s;
      for (std::size_t i = 0; i < n; ++i) {
        float nearest = 0;
        if (view.embeddings != nullptr) {
          nearest = view.embeddings->self(i);
        } else {
          for_row(view, i, [&](std::size_t, float value, std::size_t) { nearest = std::max(nearest, value); });
        }
        s.add(i, static_cast<double>(nearest));
      }
      const double total = s.total();
      facility_scale_ = ratio_or_zero(view.facility_location_weight, total);
      largest_gain += facility_scale_ * total;
    }
  }

  // Each lane adds n / 16 terms, the tree and the weighting a few more; every step rounds by at most half an ulp.
  constexpr double kRounding = std::numeric_limits<double>::epsilon() / 2;
  gain_slack_ = kRounding * (static_cast<double>(n) / kLanes + 32) * largest_gain;

  eligible_.assign(n, 1);
  if (!view.allowed.empty()) std::copy(view.allowed.begin(), view.allowed.end(), eligible_.begin());
  Purse purse;
  purse.reset(*this);
  for (Item item : view.pinned) purse.spend(item);
  const bool full = view.pinned.size() >= view.max_items;
  for (std::size_t i = 0; i < n; ++i) {
    if (full || !purse.fits(static_cast<Item>(i))) eligible_[i] = 0;
  }
  for (Item item : view.pinned) eligible_[static_cast<std::size_t>(item)] = 0;
}

/// Degrees and peaks of a similarity that is dense or comes from embeddings.
void PackingProblem::sum_rows(int threads, Control* control) {
  const std::size_t n = view_.n;
  peak_.assign(padded(n), 0.0);
  tight_.assign(padded(n) / kLanes, 0);
  if (view_.embeddings != nullptr) {
    Control unwatched(std::numeric_limits<double>::infinity());
    degree_ = view_.embeddings->degrees(threads, control != nullptr ? *control : unwatched);
    for (std::size_t i = 0; i < n; ++i) peak_[i] = static_cast<double>(view_.embeddings->self(i));
    return;
  }
  degree_.assign(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    degree_[i] = packing_kernels().row_sum(row(i), row_length_);
    peak_[i] = static_cast<double>(*std::max_element(row(i), row(i) + n));
  }
}

void PackingState::reset(const PackingProblem& problem) {
  problem_ = &problem;
  kernels_ = &packing_kernels();
  const PackingView& view = problem.view();
  headroom_.assign(problem.cap().begin(), problem.cap().end());
  tight_.assign(problem.tight().begin(), problem.tight().end());
  list_tight_blocks();
  if (view.embeddings != nullptr) {
    picks_.clear();
    units_.clear();
    applied_.assign(tight_.size(), 0);
    margin_.assign(tight_.size(), 0.0);
    for (std::size_t b = 0; b < tight_.size(); ++b) catch_up(b);
  }
  if (problem.facility_scale() > 0) nearest_.assign(padded(view.n), 0.0f);
  covered_mask_ = 0;
  if (problem.coverage_scale() > 0 && !problem.bitmask_coverage()) covered_.assign(view.term_weights.size(), 0);
  if (problem.diversity_scale() > 0) {
    group_mass_.assign(view.num_groups, 0.0);
    group_root_.assign(view.num_groups, 0.0);
  }
}

double PackingState::coverage_gain(std::size_t item) const {
  if (problem_->bitmask_coverage()) {
    return static_cast<double>(std::popcount(problem_->coverage_mask()[item] & ~covered_mask_));
  }
  LaneSum s;
  for_terms(problem_->view(), item, [&](std::size_t term, std::size_t k) {
    if (!covered_[term]) s.add(k, problem_->view().term_weights[term]);
  });
  return s.total();
}

void PackingState::list_tight_blocks() {
  blocks_.clear();
  for (std::size_t b = 0; b < tight_.size(); ++b) {
    if (tight_[b]) blocks_.push_back(static_cast<std::int32_t>(b));
  }
}

/// sum_i min(row_i, headroom_i) as the sum of the row less what finds no room. Where nothing is near its cap that is
/// the sum of the row, without a look at it.
void PackingState::represented(std::span<const Item> items, double* gains) const {
  const std::span<const double> degree = problem_->degree();
  constexpr std::size_t kSlice = 64;
  const float* rows[kSlice];
  for (std::size_t begin = 0; begin < items.size(); begin += kSlice) {
    const auto slice = items.subspan(begin, std::min(kSlice, items.size() - begin));
    double* out = gains + begin;
    if (blocks_.empty()) {
      std::fill_n(out, slice.size(), 0.0);
    } else if (problem_->view().embeddings != nullptr) {
      excess_from_embeddings(slice, out);
    } else {
      for (std::size_t k = 0; k < slice.size(); ++k) rows[k] = problem_->row(static_cast<std::size_t>(slice[k]));
      kernels_->excess(rows, slice.size(), blocks_.data(), blocks_.size(), headroom_.data(), problem_->row_length(),
                       out);
    }
    for (std::size_t k = 0; k < slice.size(); ++k) {
      out[k] = std::max(0.0, degree[static_cast<std::size_t>(slice[k])] - out[k]);
    }
  }
}

/// Only the tight blocks of each row are computed; side by side they are summed as they would be in the whole row.
void PackingState::excess_from_embeddings(std::span<const Item> items, double* out) const {
  constexpr std::size_t kTogether = 16;
  const Embeddings& embeddings = *problem_->view().embeddings;
  const std::size_t d = embeddings.dimension(), width = blocks_.size() * kLanes;
  std::vector<double> headroom(width);
  std::vector<std::int32_t> all(blocks_.size());
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    all[b] = static_cast<std::int32_t>(b);
    std::copy_n(headroom_.data() + static_cast<std::size_t>(blocks_[b]) * kLanes, kLanes, headroom.data() + b * kLanes);
  }
  std::vector<float> units(kTogether * d), rows(kTogether * width);
  for (std::size_t begin = 0; begin < items.size(); begin += kTogether) {
    const std::size_t count = std::min(kTogether, items.size() - begin);
    std::size_t item[kTogether];
    const float* row[kTogether];
    float block[kTogether * kLanes];
    for (std::size_t k = 0; k < count; ++k) {
      item[k] = static_cast<std::size_t>(items[begin + k]);
      embeddings.unit(item[k], units.data() + k * d);
      row[k] = rows.data() + k * width;
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      embeddings.with_panel({item, count}, units.data(), static_cast<std::size_t>(blocks_[b]), block);
      for (std::size_t k = 0; k < count; ++k) {
        std::copy_n(block + k * kLanes, kLanes, rows.data() + k * width + b * kLanes);
      }
    }
    kernels_->excess(row, count, all.data(), all.size(), headroom.data(), width, out + begin);
  }
}

void PackingState::represent_later(std::size_t item) {
  const std::size_t d = problem_->view().embeddings->dimension();
  picks_.push_back(item);
  units_.resize(picks_.size() * d);
  problem_->view().embeddings->unit(item, units_.data() + (picks_.size() - 1) * d);
  for (std::size_t b = 0; b < tight_.size(); ++b) {
    if (tight_[b] || margin_[b] < static_cast<double>(picks_.size() - applied_[b])) catch_up(b);
  }
}

void PackingState::catch_up(std::size_t block) {
  constexpr std::size_t kTogether = 16;
  const PackingView& view = problem_->view();
  double* headroom = headroom_.data() + block * kLanes;
  float s[kTogether * kLanes];
  for (std::size_t begin = applied_[block]; begin < picks_.size(); begin += kTogether) {
    const std::size_t count = std::min(kTogether, picks_.size() - begin);
    view.embeddings->with_panel(std::span(picks_).subspan(begin, count),
                                units_.data() + begin * view.embeddings->dimension(), block, s);
    for (std::size_t k = 0; k < count; ++k) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        headroom[l] = std::max(0.0, headroom[l] - static_cast<double>(s[k * kLanes + l]));
      }
    }
  }
  applied_[block] = static_cast<std::uint32_t>(picks_.size());
  double margin = std::numeric_limits<double>::infinity();
  for (std::size_t l = 0; l < kLanes; ++l) {
    const double peak = problem_->peak()[block * kLanes + l];
    if (peak > 0) margin = std::min(margin, headroom[l] - peak);
  }
  margin_[block] = margin;
  if (margin < 0) tight_[block] = 1;
}

double PackingState::represented_sparsely(std::size_t item) const {
  LaneSum s;
  for_row(problem_->view(), item, [&](std::size_t i, float value, std::size_t k) {
    s.add(k, std::min(static_cast<double>(value), headroom_[i]));
  });
  return s.total();
}

double PackingState::nearer(std::size_t item) const {
  if (problem_->view().similarity != nullptr) {
    return kernels_->facility_gain(problem_->row(item), nearest_.data(), problem_->row_length());
  }
  if (problem_->view().embeddings != nullptr) {
    std::vector<float> row(nearest_.size());
    problem_->view().embeddings->row(item, row.data());
    return kernels_->facility_gain(row.data(), nearest_.data(), row.size());
  }
  LaneSum s;
  for_row(problem_->view(), item, [&](std::size_t i, float value, std::size_t k) {
    s.add(k, std::max(0.0, static_cast<double>(value) - static_cast<double>(nearest_[i])));
  });
  return s.total();
}

void PackingState::gains(std::span<const Item> items, double* gains) const {
  const PackingView& view = problem_->view();
  const bool by_degree = problem_->representation_scale() > 0 && !problem_->degree().empty();
  if (by_degree) represented(items, gains);
  for (std::size_t k = 0; k < items.size(); ++k) {
    const auto j = static_cast<std::size_t>(items[k]);
    double total = 0;
    if (problem_->relevance_scale() > 0) total += problem_->relevance_scale() * view.relevance[j];
    if (problem_->coverage_scale() > 0) total += problem_->coverage_scale() * coverage_gain(j);
    if (problem_->representation_scale() > 0) {
      total += problem_->representation_scale() * (by_degree ? gains[k] : represented_sparsely(j));
    }
    if (problem_->diversity_scale() > 0) {
      const auto group = static_cast<std::size_t>(view.groups[j]);
      total += problem_->diversity_scale() * (std::sqrt(group_mass_[group] + view.relevance[j]) - group_root_[group]);
    }
    if (problem_->facility_scale() > 0) total += problem_->facility_scale() * nearer(j);
    gains[k] = total;
  }
}

void PackingState::add(Item item) {
  const PackingView& view = problem_->view();
  const auto j = static_cast<std::size_t>(item);
  if (problem_->coverage_scale() > 0) {
    if (problem_->bitmask_coverage()) {
      covered_mask_ |= problem_->coverage_mask()[j];
    } else {
      for_terms(view, j, [&](std::size_t term, std::size_t) { covered_[term] = 1; });
    }
  }
  if (problem_->representation_scale() > 0) {
    if (view.similarity != nullptr) {
      kernels_->saturated_add(problem_->row(j), problem_->peak().data(), headroom_.data(), tight_.data(),
                              problem_->row_length());
      if (blocks_.size() < tight_.size()) list_tight_blocks();
    } else if (view.embeddings != nullptr) {
      represent_later(j);
      list_tight_blocks();
    } else {
      for_row(view, j, [&](std::size_t i, float value, std::size_t) {
        headroom_[i] = std::max(0.0, headroom_[i] - static_cast<double>(value));
      });
    }
  }
  if (problem_->diversity_scale() > 0) {
    const auto group = static_cast<std::size_t>(view.groups[j]);
    group_mass_[group] += view.relevance[j];
    group_root_[group] = std::sqrt(group_mass_[group]);
  }
  if (problem_->facility_scale() > 0) {
    if (view.similarity != nullptr) {
      kernels_->facility_add(problem_->row(j), nearest_.data(), problem_->row_length());
    } else {
      for_row(view, j, [&](std::size_t i, float value, std::size_t) { nearest_[i] = std::max(nearest_[i], value); });
    }
  }
}

bool Purse::fits_exactly(Item item) const {
  std::vector<double> with = partials_;
  grow_expansion(with, view_->costs[static_cast<std::size_t>(item)]);
  return rounded(with) <= view_->budget;
}

void Purse::spend(Item item) {
  const auto i = static_cast<std::size_t>(item);
  if (view_->integer_costs.empty()) {
    grow_expansion(partials_, view_->costs[i]);
  } else {
    integer_left_ -= view_->integer_costs[i];
  }
}

Spending spending(const PackingView& view, std::span<const Item> selection) {
  std::vector<double> partials;
  std::int64_t integer_spent = 0;
  for (Item item : selection) {
    grow_expansion(partials, view.costs[static_cast<std::size_t>(item)]);
    if (!view.integer_costs.empty()) integer_spent += view.integer_costs[static_cast<std::size_t>(item)];
  }
  Spending result;
  result.cost = rounded(partials);
  result.within_budget = view.integer_costs.empty() ? result.cost <= view.budget : integer_spent <= view.integer_budget;
  return result;
}

double evaluate(const PackingProblem& problem, std::span<const Item> selection) {
  const PackingView& view = problem.view();
  const std::size_t n = view.n;
  double value = 0;
  if (problem.relevance_scale() > 0) {
    LaneSum s;
    for (std::size_t k = 0; k < selection.size(); ++k) s.add(k, view.relevance[static_cast<std::size_t>(selection[k])]);
    value += problem.relevance_scale() * s.total();
  }
  if (problem.coverage_scale() > 0) {
    std::vector<std::uint8_t> covered(view.term_weights.size(), 0);
    for (Item item : selection) {
      for_terms(view, static_cast<std::size_t>(item), [&](std::size_t term, std::size_t) { covered[term] = 1; });
    }
    LaneSum s;
    for (std::size_t t = 0; t < covered.size(); ++t) {
      if (covered[t]) s.add(t, view.term_weights[t]);
    }
    value += problem.coverage_scale() * s.total();
  }
  if (problem.representation_scale() > 0) {
    std::vector<double> mass(padded(n), 0.0);
    add_rows(problem, selection, mass.data());
    LaneSum s;
    for (std::size_t i = 0; i < n; ++i) s.add(i, std::min(mass[i], problem.cap()[i]));
    value += problem.representation_scale() * s.total();
  }
  if (problem.diversity_scale() > 0) {
    std::vector<double> mass(view.num_groups, 0.0);
    for (Item item : selection) {
      const auto i = static_cast<std::size_t>(item);
      mass[static_cast<std::size_t>(view.groups[i])] += view.relevance[i];
    }
    LaneSum s;
    for (std::size_t g = 0; g < mass.size(); ++g) s.add(g, std::sqrt(mass[g]));
    value += problem.diversity_scale() * s.total();
  }
  if (problem.facility_scale() > 0) {
    std::vector<float> nearest(n, 0.0f);
    for (Item item : selection) {
      for_row(view, static_cast<std::size_t>(item),
              [&](std::size_t i, float similarity, std::size_t) { nearest[i] = std::max(nearest[i], similarity); });
    }
    LaneSum s;
    for (std::size_t i = 0; i < n; ++i) s.add(i, static_cast<double>(nearest[i]));
    value += problem.facility_scale() * s.total();
  }
  return value;
}

}  // namespace isinglass
