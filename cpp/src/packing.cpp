#include "isinglass/packing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "isinglass/packing_kernels.hpp"
#include "isinglass/parallel.hpp"
#include "packing_rows.hpp"

namespace isinglass {
namespace {

double ratio_or_zero(double weight, double normaliser) { return normaliser > 0 ? weight / normaliser : 0; }

}  // namespace

std::int64_t first_unmirrored(const CsrView<float>& matrix, double tolerance) {
  // Rows are visited in order, so what mirrors into a row comes in the order of its columns: one place a row is enough.
  const std::size_t n = matrix.row_start.size() - 1;
  std::vector<std::int64_t> next(matrix.row_start.begin(), matrix.row_start.end() - 1);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::int64_t k = matrix.row_start[i]; k < matrix.row_start[i + 1]; ++k) {
      const auto at = static_cast<std::size_t>(k), j = static_cast<std::size_t>(matrix.column[at]);
      const auto mirror = static_cast<std::size_t>(next[j]++);
      if (next[j] > matrix.row_start[j + 1] || static_cast<std::size_t>(matrix.column[mirror]) != i ||
          std::fabs(static_cast<double>(matrix.value[at]) - static_cast<double>(matrix.value[mirror])) > tolerance) {
        return k;
      }
    }
  }
  return -1;
}

double UserTerm::operator()(std::int64_t item, std::span<const std::int64_t> selected) const {
  static constexpr std::int64_t kNone = 0;  // a place to point to for an empty set
  const double value =
      gain(item, selected.empty() ? &kNone : selected.data(), static_cast<std::int64_t>(selected.size()), data);
  if (!std::isfinite(value)) {
    throw std::domain_error("terms must give finite gains, got " + std::to_string(value) + " for item " +
                            std::to_string(item) + " beside " + std::to_string(selected.size()) + " others");
  }
  return value;
}

PackingProblem::PackingProblem(const PackingView& view, int threads, Control* control) : view_(view) {
  const std::size_t n = view.n;
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
  if (view.has_similarity() && (view.representation_weight > 0 || view.facility_location_weight > 0)) {
    Control unwatched(std::numeric_limits<double>::infinity());
    largest_gain += represent(threads, control != nullptr ? *control : unwatched);
  }

  for (const UserTerm& term : view.terms) {
    double largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double alone = term.weight * term(static_cast<std::int64_t>(i), {});
      largest = std::max(largest, std::fabs(alone));
      user_total_ += std::max(0.0, alone);
    }
    largest_gain += largest;
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
  finish();
}

/// What follows from who may be picked.
void PackingProblem::finish() {
  const std::size_t n = view_.n;
  for (std::size_t i = 0; i < n; ++i) {
    if (eligible_[i]) eligible_items_.push_back(static_cast<Item>(i));
  }
  load_.assign(padded(n), 1.0);
  for (std::size_t i = 0; i < n; ++i) {
    load_[i] = view_.integer_costs.empty() ? view_.costs[i] : static_cast<double>(view_.integer_costs[i]);
  }
  if (n > 0) cheapest_ = *std::min_element(view_.costs.begin(), view_.costs.end());

  double relevance = 0;
  std::vector<double> group_mass(diversity_scale_ > 0 ? view_.num_groups : 0, 0.0);
  const auto count = [&](Item item) {
    const auto i = static_cast<std::size_t>(item);
    if (relevance_scale_ > 0) relevance += view_.relevance[i];
    if (diversity_scale_ > 0) group_mass[static_cast<std::size_t>(view_.groups[i])] += view_.relevance[i];
  };
  for (Item item : eligible_items_) count(item);
  for (Item item : view_.pinned) count(item);
  double bound = relevance_scale_ * relevance;
  for (double mass : group_mass) bound += diversity_scale_ * std::sqrt(mass);
  // The other terms are at most their whole weight; so are those whose sums were stopped.
  if (coverage_scale_ > 0) bound += view_.coverage_weight;
  if (representation_scale_ > 0 || unfinished_) bound += view_.representation_weight;
  if (facility_scale_ > 0 || unfinished_) bound += view_.facility_location_weight;
  bound += user_total_;
  total_bound_ = bound + gain_slack_ * static_cast<double>(n + 1);
}

/// Scales, caps, degrees and peaks of the terms that look at the similarity; returns their part of the largest gain.
double PackingProblem::represent(int threads, Control& control) {
  const bool represents = view_.representation_weight > 0;
  const std::size_t m = view_.num_targets();
  std::vector<double> sums;  // of each target's similarities to all items
  if (view_.embeddings != nullptr) {
    // Without representation, too: the first gains of facility location are such sums.
    Embeddings::Sums both = view_.embeddings->sums(threads, control);
    degree_ = std::move(both.rows);
    sums = both.columns.empty() ? degree_ : std::move(both.columns);
    own_peak_.assign(padded(m), 0.0);
    for (std::size_t i = 0; i < m; ++i) own_peak_[i] = static_cast<double>(view_.embeddings->self(i));
  } else if (represents && view_.similarity != nullptr) {
    sum_dense_rows(threads, control);
    sums = degree_;
  } else if (represents) {
    sums.resize(m);
    for (std::size_t i = 0; i < m && !(i % kRowsBetween == 0 && control.stop()); ++i) {
      LaneSum s;
      for_row(view_, i, [&](std::size_t, float value, std::size_t k) { s.add(k, static_cast<double>(value)); });
      sums[i] = s.total();
    }
  }

  LaneSum nearest_sum;
  for (std::size_t i = 0; view_.facility_location_weight > 0 && i < m; ++i) {
    if (i % kRowsBetween == 0 && control.stop()) break;
    float nearest = 0;
    if (view_.embeddings != nullptr) {
      nearest = view_.embeddings->self(i);
    } else {
      for_row(view_, i, [&](std::size_t, float value, std::size_t) { nearest = std::max(nearest, value); });
    }
    nearest_sum.add(i, static_cast<double>(nearest));
  }
  if (control.reason() != StopReason::none) {
    unfinished_ = true;
    degree_.clear();
    return 0;
  }

  double largest_gain = 0;
  if (represents) {
    own_cap_.assign(padded(m), 0.0);
    for (std::size_t i = 0; i < m; ++i) own_cap_[i] = view_.saturation * sums[i];
    const double total_cap = sum(std::span<const double>(own_cap_).first(m));
    representation_scale_ = ratio_or_zero(view_.representation_weight, total_cap);
    if (!degree_.empty()) {
      own_tight_.assign(padded(m) / kLanes, 0);
      for (std::size_t i = 0; i < m; ++i) {
        if (own_cap_[i] < own_peak_[i]) own_tight_[i / kLanes] = 1;
      }
    }
    // A gain is a degree less its excess, so it rounds like the degree.
    const double largest_degree = degree_.empty() ? 0 : *std::max_element(degree_.begin(), degree_.end());
    largest_gain += representation_scale_ * (total_cap + 2 * largest_degree);
    cap_ = own_cap_;
    peak_ = own_peak_;
    tight_ = own_tight_;
  }
  const double total = nearest_sum.total();
  facility_scale_ = ratio_or_zero(view_.facility_location_weight, total);
  return largest_gain + facility_scale_ * total;
}

void PackingProblem::sum_dense_rows(int threads, Control& control) {
  const std::size_t n = view_.n, blocks = (n + kRowsBetween - 1) / kRowsBetween;
  own_peak_.assign(padded(n), 0.0);
  degree_.assign(n, 0.0);
  parallel_for(blocks, threads, control, [&](std::size_t block) {
    for (std::size_t i = block * kRowsBetween; i < std::min(n, (block + 1) * kRowsBetween); ++i) {
      float peak = 0;
      degree_[i] = packing_kernels().row_sum(row(i), row_length_, &peak);
      own_peak_[i] = static_cast<double>(peak);
    }
  });
}

PackingProblem::PackingProblem(const PackingProblem& whole, std::span<const Item> items)
    : view_(whole.view_),
      unfinished_(whole.unfinished_),
      relevance_scale_(whole.relevance_scale_),
      coverage_scale_(whole.coverage_scale_),
      representation_scale_(whole.representation_scale_),
      diversity_scale_(whole.diversity_scale_),
      facility_scale_(whole.facility_scale_),
      rows_(whole.rows_),
      row_length_(whole.row_length_),
      cap_(whole.cap_),
      peak_(whole.peak_),
      tight_(whole.tight_),
      gain_slack_(whole.gain_slack_) {
  const PackingView& of = whole.view_;
  const auto gather = [&](const auto& from, auto& own) {
    own.reserve(from.empty() ? 0 : items.size());
    for (std::size_t k = 0; k < (from.empty() ? 0 : items.size()); ++k) {
      own.push_back(from[static_cast<std::size_t>(items[k])]);
    }
  };
  gather(of.costs, part_.costs);
  gather(of.integer_costs, part_.integer_costs);
  gather(of.relevance, part_.relevance);
  gather(of.groups, part_.groups);
  gather(whole.degree_, degree_);
  gather(whole.coverage_mask_, coverage_mask_);
  gather(whole.eligible_, eligible_);
  for (Item item : items) part_.source.push_back(static_cast<Item>(of.row_of(static_cast<std::size_t>(item))));
  for (Item item : of.pinned) {
    part_.pinned.push_back(static_cast<Item>(std::lower_bound(items.begin(), items.end(), item) - items.begin()));
  }
  view_.n = items.size();
  view_.targets = of.num_targets();
  view_.costs = part_.costs;
  view_.integer_costs = part_.integer_costs;
  view_.relevance = part_.relevance;
  view_.groups = part_.groups;
  view_.source = part_.source;
  view_.pinned = part_.pinned;
  view_.allowed = {};
  finish();
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
    gram_from_ = 0;
    gram_.clear();
    applied_.assign(tight_.size(), 0);
    margin_.assign(tight_.size(), 0.0);
    for (std::size_t b = 0; b < tight_.size(); ++b) catch_up(b);
  }
  if (problem.facility_scale() > 0) nearest_.assign(padded(view.num_targets()), 0.0f);
  any_near_ = false;
  selected_.clear();
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
  constexpr std::size_t kSlice = 128;
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
  constexpr std::size_t kPaysOnDevice = std::size_t{1} << 26;  // multiply-adds
  const Embeddings& embeddings = *problem_->view().embeddings;
  const std::size_t d = embeddings.dimension(), width = blocks_.size() * kLanes;
  if (embeddings.device() != nullptr && items.size() * width * d >= kPaysOnDevice) {
    excess_on_device(items, blocks_, headroom_, out);
    return;
  }
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
      item[k] = problem_->view().row_of(static_cast<std::size_t>(items[begin + k]));
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

void PackingState::excess_on_device(std::span<const Item> items, std::span<const std::int32_t> blocks,
                                    std::span<const double> floor, double* out) const {
  std::vector<std::size_t> rows;
  for (Item item : items) rows.push_back(problem_->view().row_of(static_cast<std::size_t>(item)));
  problem_->view().embeddings->device()->excess(rows, blocks, floor, out);
}

void PackingState::represent_later(std::size_t item) {
  const std::size_t d = problem_->view().embeddings->dimension();
  picks_.push_back(item);
  units_.resize(picks_.size() * d);
  problem_->view().embeddings->unit(item, units_.data() + (picks_.size() - 1) * d);
  double most = -1;  // that the picks a block lacks may take from an item, once asked for
  for (std::size_t b = 0; b < tight_.size(); ++b) {
    if (!tight_[b]) {
      if (margin_[b] >= static_cast<double>(picks_.size() - applied_[b])) continue;
      if (most < 0) most = most_taken_since();
      if (margin_[b] >= most) continue;
    }
    catch_up(b);
  }
}

/// At least what the picks that some block lacks take from any one item. By Cauchy and Schwarz, of m unit vectors u_p:
/// sum_p max(0, u_p x) <= sqrt(m sum_p (u_p x)^2) <= sqrt(m times the largest eigenvalue of their Gram matrix), and
/// that is at most the largest sum of a row of its absolute entries (Gershgorin 1931). Far below m unless all are
/// alike.
double PackingState::most_taken_since() {
  constexpr double kRounding = 1e-4;  // relative, and more than float32 sums of unit rows are off by
  const std::size_t d = problem_->view().embeddings->dimension();
  std::size_t from = picks_.size();
  for (std::size_t b = 0; b < tight_.size(); ++b) {
    if (!tight_[b]) from = std::min<std::size_t>(from, applied_[b]);
  }
  // More picks than need be loosen the bound; beginning anew each time would take longer than it saves.
  if (from < gram_from_ || 2 * (picks_.size() - from) <= picks_.size() - gram_from_) {
    gram_from_ = from;
    gram_.clear();
  }
  while (gram_from_ + gram_.size() < picks_.size()) {
    const std::size_t p = gram_from_ + gram_.size();
    double own = 1;
    for (std::size_t q = gram_from_; q < p; ++q) {
      const double cosine = std::fabs(kernels_->dot(units_.data() + p * d, units_.data() + q * d, d));
      gram_[q - gram_from_] += cosine;
      own += cosine;
    }
    gram_.push_back(own);
  }
  const double eigenvalue = gram_.empty() ? 0 : *std::max_element(gram_.begin(), gram_.end());
  return std::sqrt(static_cast<double>(gram_.size()) * eigenvalue) * (1 + kRounding) + kRounding;
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

double PackingState::nearer_sparsely(std::size_t item) const {
  LaneSum s;
  for_row(problem_->view(), item, [&](std::size_t i, float value, std::size_t k) {
    s.add(k, std::max(0.0, static_cast<double>(value) - static_cast<double>(nearest_[i])));
  });
  return s.total();
}

/// sum_i max(0, row_i - nearest_i) of each item.
void PackingState::nearer(std::span<const Item> items, double* gains) const {
  const PackingView& view = problem_->view();
  if (!any_near_ && !problem_->degree().empty()) {
    for (std::size_t k = 0; k < items.size(); ++k) gains[k] = problem_->degree()[static_cast<std::size_t>(items[k])];
    return;
  }
  if (view.embeddings == nullptr) {
    for (std::size_t k = 0; k < items.size(); ++k) {
      const auto j = static_cast<std::size_t>(items[k]);
      gains[k] = view.similarity == nullptr
                     ? nearer_sparsely(j)
                     : kernels_->facility_gain(problem_->row(j), nearest_.data(), problem_->row_length());
    }
    return;
  }
  if (view.embeddings->device() != nullptr) {
    std::vector<std::int32_t> all(nearest_.size() / kLanes);
    std::iota(all.begin(), all.end(), 0);
    excess_on_device(items, all, std::vector<double>(nearest_.begin(), nearest_.end()), gains);
    return;
  }
  std::vector<float> rows;
  for_embedded_rows(view, items, rows, [&](std::size_t k, const float* row) {
    gains[k] = kernels_->facility_gain(row, nearest_.data(), nearest_.size());
  });
}

void PackingState::gains(std::span<const Item> items, double* gains) const {
  const PackingView& view = problem_->view();
  const bool by_degree = problem_->representation_scale() > 0 && !problem_->degree().empty();
  if (by_degree) represented(items, gains);
  std::vector<double> near;
  if (problem_->facility_scale() > 0) {
    near.resize(items.size());
    nearer(items, near.data());
  }
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
    if (problem_->facility_scale() > 0) total += problem_->facility_scale() * near[k];
    for (const UserTerm& term : view.terms) total += term.weight * term(items[k], selected_);
    gains[k] = total;
  }
}

std::size_t PackingState::gains_at_once() const {
  constexpr std::size_t kOfCpu = 64, kOfDevice = 128;
  const Embeddings* const embeddings = problem_->view().embeddings;
  return embeddings != nullptr && embeddings->device() != nullptr ? kOfDevice : kOfCpu;
}

std::size_t PackingState::work() const {
  const PackingView& view = problem_->view();
  if (!view.sparse_similarity.row_start.empty())
    return view.sparse_similarity.column.size() / std::max<std::size_t>(1, view.n);
  std::size_t entries = problem_->representation_scale() > 0 ? blocks_.size() * kLanes : 0;
  if (problem_->facility_scale() > 0 && (any_near_ || problem_->degree().empty())) entries += nearest_.size();
  return view.embeddings != nullptr ? entries * view.embeddings->dimension() : entries;
}

void PackingState::add(Item item) {
  const PackingView& view = problem_->view();
  if (!view.terms.empty()) selected_.push_back(item);
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
      represent_later(view.row_of(j));
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
    any_near_ = true;
  }
}

bool Purse::fits_exactly(Item item) const {
  Expansion with = spent_;
  with.add(view_->costs[static_cast<std::size_t>(item)]);
  return with.rounded() <= view_->budget;
}

void Purse::spend(Item item) {
  const auto i = static_cast<std::size_t>(item);
  if (view_->integer_costs.empty()) {
    spent_.add(view_->costs[i]);
  } else {
    integer_left_ -= view_->integer_costs[i];
  }
}

Spending spending(const PackingView& view, std::span<const Item> selection) {
  Expansion spent;
  std::int64_t integer_spent = 0;
  for (Item item : selection) {
    spent.add(view.costs[static_cast<std::size_t>(item)]);
    if (!view.integer_costs.empty()) integer_spent += view.integer_costs[static_cast<std::size_t>(item)];
  }
  Spending result;
  result.cost = spent.rounded();
  result.within_budget = view.integer_costs.empty() ? result.cost <= view.budget : integer_spent <= view.integer_budget;
  return result;
}

double user_value(const PackingView& view, std::span<const Item> selection) {
  if (view.terms.empty()) return 0;
  std::vector<std::int64_t> ascending(selection.begin(), selection.end());
  std::sort(ascending.begin(), ascending.end());
  double value = 0;
  for (const UserTerm& term : view.terms) {
    double sum = 0;
    for (std::size_t k = 0; k < ascending.size(); ++k) sum += term(ascending[k], std::span(ascending).first(k));
    value += term.weight * sum;
  }
  return value;
}

double evaluate(const PackingProblem& problem, std::span<const Item> selection) {
  const PackingView& view = problem.view();
  const std::size_t m = view.num_targets();
  // Kept by the thread: a dozen items take less time to sum up than to allocate for.
  thread_local std::vector<std::uint8_t> covered;
  thread_local AlignedVector<double> mass;
  thread_local AlignedVector<float> nearest;
  double value = 0;
  if (problem.relevance_scale() > 0) {
    LaneSum s;
    for (std::size_t k = 0; k < selection.size(); ++k) s.add(k, view.relevance[static_cast<std::size_t>(selection[k])]);
    value += problem.relevance_scale() * s.total();
  }
  if (problem.coverage_scale() > 0) {
    covered.assign(view.term_weights.size(), 0);
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
    mass.assign(padded(m), 0.0);
    add_rows(problem, selection, mass.data());
    value +=
        problem.representation_scale() * packing_kernels().capped_sum(mass.data(), problem.cap().data(), mass.size());
  }
  if (problem.diversity_scale() > 0) {
    mass.assign(view.num_groups, 0.0);
    for (Item item : selection) {
      const auto i = static_cast<std::size_t>(item);
      mass[static_cast<std::size_t>(view.groups[i])] += view.relevance[i];
    }
    LaneSum s;
    for (std::size_t g = 0; g < mass.size(); ++g) s.add(g, std::sqrt(mass[g]));
    value += problem.diversity_scale() * s.total();
  }
  if (problem.facility_scale() > 0) {
    nearest.assign(m, 0.0f);
    for (Item item : selection) {
      for_row(view, static_cast<std::size_t>(item),
              [&](std::size_t i, float similarity, std::size_t) { nearest[i] = std::max(nearest[i], similarity); });
    }
    LaneSum s;
    for (std::size_t i = 0; i < m; ++i) s.add(i, static_cast<double>(nearest[i]));
    value += problem.facility_scale() * s.total();
  }
  return value + user_value(view, selection);
}

}  // namespace isinglass
