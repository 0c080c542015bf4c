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
  const std::size_t panels = num_panels();
  std::vector<double> total(padded(n_), 0.0);
  const auto sum_lanes = [&](std::size_t a, const double* lanes) {
    for (std::size_t r = 0; r < kPanel; ++r) {
      LaneSum s;
      for (std::size_t lane = 0; lane < kPanel; ++lane) s.add(lane, lanes[r * kPanel + lane]);
      total[a * kPanel + r] = s.total();
    }
  };
  const auto add = [](const float* tile, double* lanes) { packing_kernels().accumulate(tile, 1.0, lanes, kTile); };
  if (threads > 2) {
    parallel_for(panels, threads, control, [&](std::size_t a) {
      double lanes[kTile] = {};
      float s[kTile];
      for (std::size_t b = 0; b < panels; ++b) {
        if (b % 256 == 255 && control.stop()) return;
        tile(a, b, s);
        add(s, lanes);
      }
      sum_lanes(a, lanes);
    });
  } else {
    // A tile serves the rows of its first panel now, and those of its second one, as a column, when their turn comes:
    // so each lane of a row is summed in ascending order.
    std::vector<double> earlier(panels * kTile, 0.0);  // [r][c] of a panel: lane r of its item c
    float s[kTile];
    double lanes[kTile];
    for (std::size_t a = 0; a < panels; ++a) {
      const double* mine = earlier.data() + a * kTile;
      for (std::size_t r = 0; r < kPanel; ++r) {
        for (std::size_t c = 0; c < kPanel; ++c) lanes[r * kPanel + c] = mine[c * kPanel + r];
      }
      for (std::size_t b = a; b < panels; ++b) {
        if (b % 256 == 255 && control.stop()) return total;
        tile(a, b, s);
        add(s, lanes);
        if (b > a) add(s, earlier.data() + b * kTile);
      }
      sum_lanes(a, lanes);
    }
  }
  total.resize(n_);
  return total;
}

}  // namespace isinglass
