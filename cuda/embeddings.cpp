#include "embeddings.hpp"

#include <algorithm>
#include <cmath>
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

}  // namespace

std::unique_ptr<Embeddings> embed(const EmbeddingRows& rows, int device, Control& control) {
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
