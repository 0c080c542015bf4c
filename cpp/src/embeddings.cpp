#include "isinglass/embeddings.hpp"

#include <algorithm>
#include <cmath>

#include "isinglass/cosine_kernels.hpp"
#include "isinglass/packing_kernels.hpp"
#include "isinglass/parallel.hpp"
#include "packing_rows.hpp"

namespace isinglass {

static_assert(Embeddings::kPanel == kLanes);

Embeddings::Embeddings(const float* rows, std::size_t n, std::size_t d)
    : n_(n), d_(d), panels_(padded(n) * d, 0.0f), self_(padded(n), 0.0f) {
  for (std::size_t i = 0; i < n; ++i) {
    const float* row = rows + i * d;
    const double norm = std::sqrt(packing_kernels().dot(row, row, d));
    if (norm == 0) continue;
    self_[i] = 1;
    float* out = panels_.data() + (i / kPanel) * kPanel * d + i % kPanel;
    for (std::size_t k = 0; k < d; ++k) out[k * kPanel] = static_cast<float>(static_cast<double>(row[k]) / norm);
  }
}

void Embeddings::unit(std::size_t item, float* out) const {
  const float* from = panel(item / kPanel) + item % kPanel;
  for (std::size_t k = 0; k < d_; ++k) out[k] = from[k * kPanel];
}

void Embeddings::with_panel(std::span<const std::size_t> items, const float* units, std::size_t p, float* out) const {
  cosine_kernels().of_rows(units, items.size(), panel(p), d_, out);
  for (std::size_t k = 0; k < items.size(); ++k) {
    if (items[k] / kPanel == p) out[k * kPanel + items[k] % kPanel] = self_[items[k]];
  }
}

void Embeddings::row(std::size_t item, float* out) const {
  std::vector<float> own(d_);
  unit(item, own.data());
  for (std::size_t p = 0; p < num_panels(); ++p) with_panel({&item, 1}, own.data(), p, out + p * kPanel);
}

void Embeddings::tile(std::size_t a, std::size_t b, float* out) const {
  cosine_kernels().of_panels(panel(a), panel(b), d_, out);
  if (a == b) {
    for (std::size_t r = 0; r < kPanel; ++r) out[r * kPanel + r] = self_[a * kPanel + r];
  }
}

void Embeddings::matrix(float* out, int threads, Control& control) const {
  parallel_for(num_panels(), threads, control, [&](std::size_t a) {
    float s[kPanel * kPanel];
    const std::size_t rows = std::min(kPanel, n_ - a * kPanel);
    for (std::size_t b = a; b < num_panels(); ++b) {
      if (b % 256 == 255 && control.stop()) return;
      tile(a, b, s);
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

std::vector<double> Embeddings::degrees(int threads, Control& control) const {
  constexpr std::size_t kTile = kPanel * kPanel;
  constexpr std::size_t kGroup = 8;  // panels that stay in the caches while all others pass by
  const std::size_t panels = num_panels(), groups = (panels + kGroup - 1) / kGroup;
  std::vector<double> total(padded(n_), 0.0);
  const auto add = [](const float* tile, double* lanes) { packing_kernels().accumulate(tile, 1.0, lanes, kTile); };
  // With one pass over half of the matrix a tile serves the rows of its first panel now, and those of its second one,
  // as a column, when their turn comes; so each lane of a row is summed in ascending order either way.
  const bool halved = threads <= 2;
  std::vector<double> earlier(halved ? panels * kTile : 0, 0.0);  // [r][c] of a panel: lane r of its item c
  const auto sum_group = [&](std::size_t group) {
    const std::size_t first = group * kGroup, last = std::min(first + kGroup, panels);
    std::vector<double> lanes((last - first) * kTile, 0.0);
    float s[kTile];
    for (std::size_t b = halved ? first : 0; b < panels; ++b) {
      if (control.stop()) return;
      for (std::size_t a = first; a < last && (!halved || a <= b); ++a) {
        double* mine = lanes.data() + (a - first) * kTile;
        if (halved && a == b) {
          for (std::size_t r = 0; r < kPanel; ++r) {
            for (std::size_t c = 0; c < kPanel; ++c) mine[r * kPanel + c] = earlier[a * kTile + c * kPanel + r];
          }
        }
        tile(a, b, s);
        add(s, mine);
        if (halved && b > a) add(s, earlier.data() + b * kTile);
      }
    }
    for (std::size_t i = first * kPanel; i < last * kPanel; ++i) {
      LaneSum sum_of_row;
      for (std::size_t lane = 0; lane < kPanel; ++lane) {
        sum_of_row.add(lane, lanes[(i - first * kPanel) * kPanel + lane]);
      }
      total[i] = sum_of_row.total();
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

}  // namespace isinglass
