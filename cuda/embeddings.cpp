#include "embeddings.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "embedding_kernels.hpp"
#include "runtime.hpp"

namespace isinglass::cuda {
namespace {

std::uint32_t groups_of(std::size_t items) {
  return static_cast<std::uint32_t>((items + kGroupItems - 1) / kGroupItems);
}

std::uint32_t panels_of(std::size_t items) {
  return static_cast<std::uint32_t>((items + Embeddings::kPanel - 1) / Embeddings::kPanel);
}

/// Items as the device holds them.
struct Side {
  Side(Batch& batch_in, std::size_t items_in, std::size_t d, bool keeps_panels)
      : batch(batch_in), items(items_in), num_groups(groups_of(items)) {
    const std::size_t places = std::size_t{num_groups} * kGroupItems;
    ids = batch.input<std::int32_t>(places);
    self = batch.output<float>(places);
    if (keeps_panels) panels = batch.output<float>(panels_of(items) * Embeddings::kPanel * d);
    groups = batch.scratch<float>(places * d);
  }

  /// `id_of(i)`: the row of item i.
  template <class Id>
  void name(Id id_of) {
    const std::span<std::int32_t> to = batch.host(ids);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = i < items ? id_of(i) : -1;
  }

  void scale(const float* rows, std::size_t d) {
    const UnitRowsArgs args{rows,
                            batch.device(ids),
                            batch.device(groups),
                            panels.count > 0 ? batch.device(panels) : nullptr,
                            batch.device(self),
                            static_cast<std::uint32_t>(d),
                            panels_of(items)};
    batch.launch(unit_rows, {num_groups * (kGroupItems / kUnitItems), kUnitThreads}, args);
  }

  Batch& batch;
  std::size_t items;
  std::uint32_t num_groups;
  Array<std::int32_t> ids;
  Array<float> self, panels, groups;
};

/// Sums of `rows` over ranges of `columns`.
struct Sums {
  Sums(Batch& batch, const Side& rows_in, const Side& columns_in, std::uint32_t range_in)
      : rows(rows_in),
        columns(columns_in),
        range(std::max(1U, std::min(range_in, columns.num_groups))),
        num_ranges((columns.num_groups + range - 1) / range) {
    const std::size_t places = std::size_t{num_ranges} * rows.num_groups * kGroupItems;
    lanes = batch.scratch<double>(places * Embeddings::kPanel);
    sums = batch.output<double>(places);
  }

  /// Whether it came to its end.
  bool run(Batch& batch, std::size_t d, Control& control) {
    constexpr double kPace = 5e12;  // products a second, at least: the first slice takes some milliseconds
    const double products = static_cast<double>(rows.num_groups) * num_ranges * kGroupItems * kGroupItems *
                            static_cast<double>(std::max<std::size_t>(1, d));
    const auto guess = static_cast<std::uint64_t>(std::max(1.0, 0.005 * kPace / std::max(1.0, products)));
    const std::uint64_t done = in_slices(batch, range, guess, control, [&](std::uint64_t first, std::uint64_t count) {
      batch.launch(row_sums, {rows.num_groups * num_ranges, kSumThreads, kTileSharedBytes},
                   RowSumsArgs{batch.device(rows.groups), batch.device(columns.groups), batch.device(rows.ids),
                               batch.device(columns.ids), batch.device(rows.self), batch.device(lanes),
                               batch.device(sums), static_cast<std::uint32_t>(d), rows.num_groups, columns.num_groups,
                               range, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count)});
    });
    return done == range;
  }

  double at(const Batch& batch, std::size_t of_range, std::size_t row) const {
    return batch.host(sums)[of_range * rows.num_groups * kGroupItems + row];
  }

  const Side &rows, &columns;
  std::uint32_t range, num_ranges;
  Array<double> lanes, sums;
};

/// Some items and what each is similar to: (items, columns) in device memory.
struct Similarities {
  Similarities(Batch& batch_in, const float* rows_in, std::size_t d_in, const Side& columns_in)
      : batch(batch_in), rows(rows_in), d(d_in), columns(columns_in), items(batch, kGroupItems, d, false) {}

  void launch(std::span<const std::size_t> wanted, float* to) {
    const auto count = static_cast<std::uint32_t>(wanted.size());
    items.items = wanted.size();
    batch.upload();
    items.scale(rows, d);
    batch.launch(
        cosines_of_groups, {columns.num_groups, kSumThreads, kTileSharedBytes},
        CosinesArgs{batch.device(items.groups), columns.batch.device(columns.groups), to, static_cast<std::uint32_t>(d),
                    columns.num_groups, count, static_cast<std::uint32_t>(columns.items), 0});
  }

  Batch& batch;
  const float* rows;
  std::size_t d;
  const Side& columns;
  Side items;
};

class OnDevice : public SimilarityDevice {
 public:
  OnDevice(const EmbeddingRows& rows, int device)
      : sample_(rows.sample.begin(), rows.sample.end()),
        m_(sample_.empty() ? rows.n : sample_.size()),
        held_(device),
        raw_(held_.input<float>(rows.device == nullptr ? rows.n * rows.d : 0)),
        columns_(held_, m_, rows.d, false),
        of_sums_(device),
        of_row_(device) {
    held_.allocate();
    if (rows.device == nullptr) {
      std::copy_n(rows.host, rows.n * rows.d, held_.host(raw_).data());
    } else {
      driver::settle(device);
    }
    const float* const on_device = rows.device == nullptr ? held_.device(raw_) : rows.device;
    columns_.name([&](std::size_t c) { return sample_.empty() ? static_cast<std::int32_t>(c) : sample_[c]; });
    held_.upload();
    columns_.scale(on_device, rows.d);
    held_.wait();

    several_.emplace(of_sums_, on_device, rows.d, columns_);
    own_ = of_sums_.input<std::int32_t>(kGroupItems);
    panels_ = of_sums_.input<std::int32_t>(panels_of(m_));
    floor_ = of_sums_.input<double>(std::size_t{panels_of(m_)} * Embeddings::kPanel);
    sums_ = of_sums_.output<double>(kGroupItems);
    similarities_ = of_sums_.scratch<float>(kGroupItems * m_);
    of_sums_.allocate();
    one_.emplace(of_row_, on_device, rows.d, columns_);
    row_ = of_row_.output<float>(m_);
    of_row_.allocate();
  }

  void row(std::size_t item, float* out) override {
    one_->items.items = 1;
    one_->items.name([&](std::size_t) { return static_cast<std::int32_t>(item); });
    one_->launch({&item, 1}, of_row_.device(row_));
    of_row_.download();
    of_row_.wait();
    std::ranges::copy(of_row_.host(row_), out);
    std::fill(out + m_, out + std::size_t{panels_of(m_)} * Embeddings::kPanel, 0.0f);
    if (const std::int32_t own = own_column(item); own >= 0) out[own] = of_row_.host(one_->items.self)[0];
  }

  void excess(std::span<const std::size_t> items, std::span<const std::int32_t> panels, std::span<const double> floor,
              double* out) override {
    std::ranges::copy(panels, of_sums_.host(panels_).begin());
    std::ranges::copy(floor, of_sums_.host(floor_).begin());
    for (std::size_t begin = 0; begin < items.size(); begin += kGroupItems) {
      const auto some = items.subspan(begin, std::min<std::size_t>(kGroupItems, items.size() - begin));
      several_->items.items = some.size();
      several_->items.name([&](std::size_t k) { return static_cast<std::int32_t>(some[k]); });
      for (std::size_t k = 0; k < some.size(); ++k) of_sums_.host(own_)[k] = own_column(some[k]);
      several_->launch(some, of_sums_.device(similarities_));
      const auto count = static_cast<std::uint32_t>(some.size());
      of_sums_.launch(
          excess_sums, {(count + 1) / 2, 32},
          ExcessArgs{of_sums_.device(similarities_), of_sums_.device(own_), of_sums_.device(several_->items.self),
                     of_sums_.device(panels_), of_sums_.device(floor_), of_sums_.device(sums_),
                     static_cast<std::uint32_t>(m_), static_cast<std::uint32_t>(panels.size()), count});
      of_sums_.download();
      of_sums_.wait();
      std::copy_n(of_sums_.host(sums_).data(), count, out + begin);
    }
  }

 private:
  std::int32_t own_column(std::size_t item) const {
    const auto id = static_cast<std::int32_t>(item);
    if (sample_.empty()) return id;
    const auto at = std::ranges::lower_bound(sample_, id);
    return at != sample_.end() && *at == id ? static_cast<std::int32_t>(at - sample_.begin()) : -1;
  }

  std::vector<std::int32_t> sample_;
  std::size_t m_;
  Batch held_;  // the rows, and the columns of them, for as long as this lives
  Array<float> raw_;
  Side columns_;
  Batch of_sums_, of_row_;
  std::optional<Similarities> several_, one_;
  Array<std::int32_t> own_, panels_;
  Array<double> floor_, sums_;
  Array<float> similarities_, row_;
};

}  // namespace

std::unique_ptr<SimilarityDevice> similarities(const EmbeddingRows& rows, int device) {
  return std::make_unique<OnDevice>(rows, device);
}

std::unique_ptr<Embeddings> embed(const EmbeddingRows& rows, int device, Control& control) {
  if (control.stop()) return nullptr;
  static_assert(Embeddings::kItemsOfSum % kGroupItems == 0);
  constexpr std::uint32_t kRangeOfSample = Embeddings::kItemsOfSum / kGroupItems;
  const bool sampled = !rows.sample.empty();
  Batch batch(device);
  const auto raw = batch.input<float>(rows.device == nullptr ? rows.n * rows.d : 0);
  Side all(batch, rows.n, rows.d, !sampled);
  Side sample(batch, rows.sample.size(), rows.d, true);
  Side& columns = sampled ? sample : all;
  Sums of_rows(batch, all, columns, columns.num_groups);
  Sums of_columns(batch, sample, all, kRangeOfSample);
  batch.allocate();
  if (rows.device == nullptr) std::copy_n(rows.host, rows.n * rows.d, batch.host(raw).data());
  all.name([](std::size_t i) { return static_cast<std::int32_t>(i); });
  sample.name([&](std::size_t i) { return rows.sample[i]; });
  batch.upload();
  if (rows.device != nullptr) driver::settle(device);
  const float* const on_device = rows.device == nullptr ? batch.device(raw) : rows.device;
  all.scale(on_device, rows.d);
  if (sampled) sample.scale(on_device, rows.d);
  // Picks of a sampled pool ask for rows, one by one, on the host.
  std::vector<float> copy(sampled && rows.device != nullptr ? rows.n * rows.d : 0);
  batch.fetch(copy.data(), rows.device, copy.size() * sizeof(float));
  if (!of_rows.run(batch, rows.d, control)) return nullptr;
  if (sampled && !of_columns.run(batch, rows.d, control)) return nullptr;
  batch.download();
  batch.wait();

  for (std::size_t i = 0; i < rows.n; ++i) {
    if (std::isnan(batch.host(all.self)[i])) {
      throw std::invalid_argument("embeddings must be finite, row " + std::to_string(i) + " is not");
    }
  }
  Embeddings::Sums sums;
  for (std::size_t i = 0; i < rows.n; ++i) sums.rows.push_back(of_rows.at(batch, 0, i));
  for (std::size_t c = 0; c < rows.sample.size(); ++c) {
    double total = 0;
    for (std::size_t b = 0; b < of_columns.num_ranges; ++b) total += of_columns.at(batch, b, c);
    sums.columns.push_back(total);
  }
  const std::span<const float> panels = batch.host(columns.panels);
  const std::span<const float> self = batch.host(columns.self).first(panels_of(columns.items) * Embeddings::kPanel);
  return std::make_unique<Embeddings>(Embeddings::Parts{
      .rows = rows.host,
      .own_rows = std::move(copy),
      .n = rows.n,
      .d = rows.d,
      .sample = {rows.sample.begin(), rows.sample.end()},
      .panels = {panels.begin(), panels.end()},
      .self = {self.begin(), self.end()},
      .sums = std::move(sums),
  });
}

void cosines(const SomeRows& rows, const SomeRows& others, std::size_t d, int device, float* to, float* to_host,
             Control& control) {
  Batch batch(device);
  const auto raw_of = [&](const SomeRows& some) {
    return batch.input<float>(some.device == nullptr ? some.count * d : 0);
  };
  const auto raw_rows = raw_of(rows), raw_others = raw_of(others);
  Side mine(batch, rows.count, d, false), columns(batch, others.count, d, false);
  const auto out = batch.output<float>(to == nullptr ? rows.count * others.count : 0);
  batch.allocate();
  const auto fill = [&](const SomeRows& some, Array<float> raw, Side& side) {
    if (some.device == nullptr) std::copy_n(some.host, some.count * d, batch.host(raw).data());
    side.name([](std::size_t i) { return static_cast<std::int32_t>(i); });
  };
  fill(rows, raw_rows, mine);
  fill(others, raw_others, columns);
  batch.upload();
  if (rows.device != nullptr || others.device != nullptr) driver::settle(device);
  mine.scale(rows.device == nullptr ? batch.device(raw_rows) : rows.device, d);
  columns.scale(others.device == nullptr ? batch.device(raw_others) : others.device, d);
  constexpr double kPace = 5e12;  // products a second, at least
  const double products = static_cast<double>(columns.num_groups) * kGroupItems * kGroupItems * static_cast<double>(d);
  in_slices(batch, columns.num_groups > 0 ? mine.num_groups : 0,
            static_cast<std::uint64_t>(std::max(1.0, 0.005 * kPace / std::max(1.0, products))), control,
            [&](std::uint64_t first, std::uint64_t count) {
              batch.launch(cosines_of_groups,
                           {static_cast<unsigned>(count) * columns.num_groups, kSumThreads, kTileSharedBytes},
                           CosinesArgs{batch.device(mine.groups), batch.device(columns.groups),
                                       to == nullptr ? batch.device(out) : to, static_cast<std::uint32_t>(d),
                                       columns.num_groups, static_cast<std::uint32_t>(rows.count),
                                       static_cast<std::uint32_t>(others.count), static_cast<std::uint32_t>(first)});
            });
  batch.download();
  batch.wait();
  for (const Side* side : {&mine, &columns}) {
    for (std::size_t i = 0; i < side->items; ++i) {
      if (std::isnan(batch.host(side->self)[i])) {
        throw std::invalid_argument(std::string(side == &mine ? "rows" : "others") + " must be finite, row " +
                                    std::to_string(i) + " is not");
      }
    }
  }
  if (to == nullptr) std::ranges::copy(batch.host(out), to_host);
}

}  // namespace isinglass::cuda
