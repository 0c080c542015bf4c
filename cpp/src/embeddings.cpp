#include "isinglass/embeddings.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "isinglass/cosine_kernels.hpp"
#include "isinglass/packing_kernels.hpp"
#include "isinglass/parallel.hpp"
#include "packing_rows.hpp"

namespace isinglass {
namespace {

constexpr std::size_t kTile = Embeddings::kPanel * Embeddings::kPanel;

void accumulate(const float* tile, double* lanes) { packing_kernels().accumulate(tile, 1.0, lanes, kTile); }

/// Sixteen lanes, `step` apart, as their tree.
double total_of(const double* lanes, std::size_t step) {
  LaneSum sum;
  for (std::size_t lane = 0; lane < kLanes; ++lane) sum.add(lane, lanes[lane * step]);
  return sum.total();
}

/// The unit row, (d,); returns whether it has a direction.
bool scale(const float* row, std::size_t d, float* out) {
  const double norm = std::sqrt(packing_kernels().dot(row, row, d));
  if (norm == 0) {
    std::fill_n(out, d, 0.0f);
    return false;
  }
  cosine_kernels().scaled(row, 1 / norm, d, out);
  return true;
}

}  // namespace

static_assert(Embeddings::kPanel == kLanes);

Embeddings::Embeddings(const float* rows, std::size_t n, std::size_t d)
    : n_(n), d_(d), num_columns_(n), panels_(padded(n) * d), self_(padded(n), 0.0f) {
  place(rows);
}

Embeddings::Embeddings(const float* rows, std::size_t n, std::size_t d, std::span<const std::int32_t> sample)
    : n_(n),
      d_(d),
      num_columns_(sample.size()),
      rows_(rows),
      sample_(sample.begin(), sample.end()),
      panels_(padded(sample.size()) * d),
      self_(padded(sample.size()), 0.0f) {
  place(rows);
}

Embeddings::Embeddings(Parts parts)
    : n_(parts.n),
      d_(parts.d),
      num_columns_(parts.sample.empty() ? parts.n : parts.sample.size()),
      own_rows_(std::move(parts.own_rows)),
      rows_(own_rows_.empty() ? parts.rows : own_rows_.data()),
      sample_(std::move(parts.sample)),
      panels_(std::move(parts.panels)),
      self_(std::move(parts.self)),
      known_sums_(std::move(parts.sums)) {}

/// Fills the panels.
void Embeddings::place(const float* rows) {
  std::vector<float> units(kPanel * d_);
  for (std::size_t p = 0; p < num_panels(); ++p) {
    for (std::size_t c = 0; c < kPanel; ++c) {
      const std::size_t column = p * kPanel + c;
      if (column >= num_columns_) {
        std::fill_n(units.data() + c * d_, d_, 0.0f);
        continue;
      }
      const std::size_t item = sampled() ? static_cast<std::size_t>(sample_[column]) : column;
      self_[column] = scale(rows + item * d_, d_, units.data() + c * d_) ? 1 : 0;
    }
    transpose(units.data(), panels_.data() + p * kPanel * d_);
  }
}

/// Sixteen rows to a panel, in squares that stay in the cache.
void Embeddings::transpose(const float* units, float* out) const {
  for (std::size_t first = 0; first < d_; first += kPanel) {
    const std::size_t last = std::min(first + kPanel, d_);
    for (std::size_t k = first; k < last; ++k) {
      for (std::size_t c = 0; c < kPanel; ++c) out[k * kPanel + c] = units[c * d_ + k];
    }
  }
}

void Embeddings::unit(std::size_t item, float* out) const {
  if (sampled()) {
    scale(rows_ + item * d_, d_, out);
    return;
  }
  const float* from = panel(item / kPanel) + item % kPanel;
  for (std::size_t k = 0; k < d_; ++k) out[k] = from[k * kPanel];
}

/// Which column of the panel is the item's own, or kPanel.
std::size_t Embeddings::own_entry(std::size_t item, std::size_t p) const {
  if (!sampled()) return item / kPanel == p ? item % kPanel : kPanel;
  const std::size_t begin = p * kPanel, end = std::min(begin + kPanel, num_columns_);
  const auto own = static_cast<std::int32_t>(item);
  if (own < sample_[begin] || own > sample_[end - 1]) return kPanel;
  for (std::size_t c = begin; c < end; ++c) {
    if (sample_[c] == own) return c - begin;
  }
  return kPanel;
}

void Embeddings::with_panel(std::span<const std::size_t> items, const float* units, std::size_t p, float* out) const {
  cosine_kernels().of_rows(units, items.size(), panel(p), d_, out);
  for (std::size_t k = 0; k < items.size(); ++k) {
    if (const std::size_t own = own_entry(items[k], p); own < kPanel) out[k * kPanel + own] = self_[p * kPanel + own];
  }
}

void Embeddings::lend(std::unique_ptr<SimilarityDevice> device) const {
  const std::thread::id self = std::this_thread::get_id(), borrower = loan_->borrower;
  if (borrower != self && borrower != std::thread::id{}) return;
  loan_->device = std::move(device);
  loan_->borrower = loan_->device != nullptr ? self : std::thread::id{};
}

void Embeddings::row(std::size_t item, float* out) const {
  if (SimilarityDevice* const lent = device(); lent != nullptr) {
    lent->row(item, out);
    return;
  }
  std::vector<float> own(d_);
  unit(item, own.data());
  cosine_kernels().of_row(own.data(), panels_.data(), num_panels(), d_, out);
  if (!sampled()) {
    out[item] = self_[item];
  } else if (const auto at = std::lower_bound(sample_.begin(), sample_.end(), static_cast<std::int32_t>(item));
             at != sample_.end() && *at == static_cast<std::int32_t>(item)) {
    out[at - sample_.begin()] = self_[static_cast<std::size_t>(at - sample_.begin())];
  }
}

void Embeddings::add_rows(std::span<const std::size_t> items, double* out) const {
  constexpr std::size_t kTwo = 2;  // panels of columns that pass by together
  const std::size_t panels = (items.size() + kPanel - 1) / kPanel;
  std::vector<float> units(kPanel * d_), packed(panels * kPanel * d_);
  for (std::size_t a = 0; a < panels; ++a) {
    std::fill(units.begin(), units.end(), 0.0f);
    for (std::size_t k = a * kPanel; k < std::min(items.size(), (a + 1) * kPanel); ++k) {
      unit(items[k], units.data() + k % kPanel * d_);
    }
    transpose(units.data(), packed.data() + a * kPanel * d_);
  }
  const std::vector<double> ones(kPanel, 1.0);
  float s[kTwo * kTile];
  for (std::size_t p = 0; p < num_panels(); p += kTwo) {
    const std::size_t count = std::min(kTwo, num_panels() - p);
    for (std::size_t a = 0; a < panels; ++a) {
      cosine_kernels().of_panels(packed.data() + a * kPanel * d_, panel(p), count, d_, s);
      const std::size_t rows = std::min(kPanel, items.size() - a * kPanel);
      for (std::size_t q = 0; q < count; ++q) {
        for (std::size_t r = 0; r < rows; ++r) {
          const std::size_t own = own_entry(items[a * kPanel + r], p + q);
          if (own < kPanel) s[q * kTile + r * kPanel + own] = self_[(p + q) * kPanel + own];
        }
        packing_kernels().accumulate_rows(s + q * kTile, kPanel, ones.data(), rows, out + (p + q) * kPanel, kPanel);
      }
    }
  }
}

void Embeddings::add_columns(std::span<const std::size_t> columns, std::span<const double> weights, double* out,
                             Control& control) const {
  // The columns as panels of their own, so that none is computed but them.
  const std::size_t count = columns.size(), panels = (count + kPanel - 1) / kPanel;
  std::vector<float> packed(panels * kPanel * d_, 0.0f);
  std::vector<double> weight(panels * kPanel, 0.0);
  std::vector<std::size_t> item_of(count);
  for (std::size_t k = 0; k < count; ++k) {
    const float* from = panel(columns[k] / kPanel) + columns[k] % kPanel;
    float* to = packed.data() + (k / kPanel) * kPanel * d_ + k % kPanel;
    for (std::size_t i = 0; i < d_; ++i) to[i * kPanel] = from[i * kPanel];
    weight[k] = weights[k];
    item_of[k] = sampled() ? static_cast<std::size_t>(sample_[columns[k]]) : columns[k];
  }
  std::vector<float> units(kPanel * d_);
  float s[kTile];
  for (std::size_t begin = 0; begin < n_; begin += kPanel) {
    if (control.stop()) return;
    const std::size_t rows = std::min(kPanel, n_ - begin);
    for (std::size_t r = 0; r < rows; ++r) unit(begin + r, units.data() + r * d_);
    double lanes[kTile] = {};
    for (std::size_t p = 0; p < panels; ++p) {
      cosine_kernels().of_rows(units.data(), rows, packed.data() + p * kPanel * d_, d_, s);
      for (std::size_t k = p * kPanel; k < std::min(count, (p + 1) * kPanel); ++k) {
        if (item_of[k] >= begin && item_of[k] < begin + rows) {
          s[(item_of[k] - begin) * kPanel + k % kPanel] = self_[columns[k]];
        }
      }
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < kPanel; ++c) {
          lanes[r * kPanel + c] += weight[p * kPanel + c] * static_cast<double>(s[r * kPanel + c]);
        }
      }
    }
    for (std::size_t r = 0; r < rows; ++r) out[begin + r] += total_of(lanes + r * kPanel, 1);
  }
}

/// Tiles of panel `a` and of `count` panels from `b`.
void Embeddings::tiles(std::size_t a, std::size_t b, std::size_t count, float* out) const {
  cosine_kernels().of_panels(panel(a), panel(b), count, d_, out);
  if (a < b || a >= b + count) return;
  for (std::size_t r = 0; r < kPanel; ++r) out[(a - b) * kTile + r * kPanel + r] = self_[a * kPanel + r];
}

void Embeddings::of_rows(const float* rows, std::size_t count, float* out, int threads, Control& control) const {
  parallel_for((count + kPanel - 1) / kPanel, threads, control, [&](std::size_t block) {
    const std::size_t first = block * kPanel, part = std::min(kPanel, count - first);
    std::vector<float> units(part * d_);
    for (std::size_t r = 0; r < part; ++r) scale(rows + (first + r) * d_, d_, units.data() + r * d_);
    float s[kTile];
    for (std::size_t p = 0; p < num_panels(); ++p) {
      if (p % 256 == 255 && control.stop()) return;
      cosine_kernels().of_rows(units.data(), part, panel(p), d_, s);
      const std::size_t columns = std::min(kPanel, num_columns_ - p * kPanel);
      for (std::size_t r = 0; r < part; ++r) {
        std::copy_n(s + r * kPanel, columns, out + (first + r) * num_columns_ + p * kPanel);
      }
    }
  });
}

void Embeddings::matrix(float* out, int threads, Control& control) const {
  parallel_for(num_panels(), threads, control, [&](std::size_t a) {
    float s[kTile];
    const std::size_t rows = std::min(kPanel, n_ - a * kPanel);
    for (std::size_t b = a; b < num_panels(); ++b) {
      if (b % 256 == 255 && control.stop()) return;
      tiles(a, b, 1, s);
      const std::size_t columns = std::min(kPanel, n_ - b * kPanel);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) {
          out[(a * kPanel + r) * n_ + b * kPanel + c] = s[r * kPanel + c];
          out[(b * kPanel + c) * n_ + a * kPanel + r] = s[r * kPanel + c];
        }
      }
    }
  });
}

Embeddings::Sums Embeddings::sums(int threads, Control& control) const {
  if (known_sums_) return *known_sums_;
  if (sampled()) return sums_of_sample(threads, control);
  return {sums_of_all(threads, control), {}};
}

std::vector<double> Embeddings::sums_of_all(int threads, Control& control) const {
  constexpr std::size_t kGroupBytes = 768 * 1024;  // of panels that stay in the caches while all others pass by
  const std::size_t group_size =
      std::max<std::size_t>(1, kGroupBytes / (kPanel * sizeof(float) * std::max<std::size_t>(1, d_)));
  const std::size_t panels = num_panels(), groups = (panels + group_size - 1) / group_size;
  std::vector<double> total(padded(n_), 0.0);
  // With one pass over half of the matrix a tile serves the rows of its first panel now, and those of its second one,
  // as a column, when their turn comes; so each lane of a row is summed in ascending order either way.
  const bool halved = threads <= 2;
  std::vector<double> earlier(halved ? panels * kTile : 0, 0.0);  // [r][c] of a panel: lane r of its item c
  const auto sum_group = [&](std::size_t group) {
    constexpr std::size_t kTwo = 2;  // panels that pass by together
    const std::size_t first = group * group_size, last = std::min(first + group_size, panels);
    std::vector<double> lanes((last - first) * kTile, 0.0);
    float s[kTwo * kTile];
    for (std::size_t b = halved ? first : 0; b < panels; b += kTwo) {
      if (control.stop()) return;
      const std::size_t count = std::min(kTwo, panels - b);
      for (std::size_t a = first; a < last && (!halved || a < b + count); ++a) {
        double* mine = lanes.data() + (a - first) * kTile;
        const std::size_t skipped = halved && a > b ? a - b : 0;
        tiles(a, b + skipped, count - skipped, s);
        for (std::size_t k = skipped; k < count; ++k) {
          const float* tile = s + (k - skipped) * kTile;
          if (halved && a == b + k) {
            for (std::size_t r = 0; r < kPanel; ++r) {
              for (std::size_t c = 0; c < kPanel; ++c) mine[r * kPanel + c] = earlier[a * kTile + c * kPanel + r];
            }
          }
          if (halved && b + k > a) {
            packing_kernels().accumulate_twice(tile, mine, earlier.data() + (b + k) * kTile, kTile);
          } else {
            accumulate(tile, mine);
          }
        }
      }
    }
    for (std::size_t i = first * kPanel; i < last * kPanel; ++i) {
      total[i] = total_of(lanes.data() + (i - first * kPanel) * kPanel, 1);
    }
  };
  if (halved) {
    for (std::size_t group = 0; group < groups && control.reason() == StopReason::none; ++group) sum_group(group);
  } else {
    parallel_for(groups, threads, control, sum_group);
  }
  total.resize(n_);
  return total;
}

std::size_t Embeddings::bytes_of_sample_sums(std::size_t n, std::size_t columns) {
  return (n + kItemsOfSum - 1) / kItemsOfSum * padded(columns) * sizeof(double);
}

Embeddings::Sums Embeddings::sums_of_sample(int threads, Control& control) const {
  const std::size_t blocks = (n_ + kItemsOfSum - 1) / kItemsOfSum, width = num_panels() * kPanel;
  Sums sums{std::vector<double>(n_), std::vector<double>(num_columns_, 0.0)};
  std::vector<double> partial(blocks * width);  // of each column, over the items of a block
  parallel_for(blocks, threads, control, [&](std::size_t block) {
    constexpr std::size_t kGroup = 8 * kPanel;  // items whose unit rows stay in the caches while all panels pass by
    const std::size_t end = std::min(n_, (block + 1) * kItemsOfSum);
    std::vector<double> of_columns(num_panels() * kTile, 0.0);  // [r][c] of a panel: lane r of its column c
    std::vector<float> units(kGroup * d_);
    float s[kTile];
    for (std::size_t first = block * kItemsOfSum; first < end; first += kGroup) {
      if (control.stop()) return;
      const std::size_t count = std::min(kGroup, end - first);
      std::vector<double> of_rows(kGroup * kPanel, 0.0);
      std::size_t items[kGroup];
      for (std::size_t k = 0; k < count; ++k) {
        items[k] = first + k;
        unit(items[k], units.data() + k * d_);
      }
      for (std::size_t p = 0; p < num_panels(); ++p) {
        for (std::size_t k = 0; k < count; k += kPanel) {
          const std::size_t rows = std::min(kPanel, count - k);
          with_panel({items + k, rows}, units.data() + k * d_, p, s);
          std::fill(s + rows * kPanel, s + kTile, 0.0f);
          packing_kernels().accumulate_twice(s, of_rows.data() + k * kPanel, of_columns.data() + p * kTile, kTile);
        }
      }
      for (std::size_t k = 0; k < count; ++k) sums.rows[first + k] = total_of(of_rows.data() + k * kPanel, 1);
    }
    for (std::size_t c = 0; c < width; ++c) {
      partial[block * width + c] = total_of(of_columns.data() + (c / kPanel) * kTile + c % kPanel, kPanel);
    }
  });
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t c = 0; c < num_columns_; ++c) sums.columns[c] += partial[block * width + c];
  }
  return sums;
}

}  // namespace isinglass
