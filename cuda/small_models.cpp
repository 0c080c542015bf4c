#include "small_models.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "isinglass/parallel.hpp"

namespace isinglass::cuda {
namespace {

constexpr std::size_t kAlignment = 16;

template <class T>
void copy_rows(const DenseRows<T>& rows, std::size_t n, std::size_t stride, void* out) {
  auto* to = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; ++i, to += stride) {
    std::memcpy(to, rows.values.data() + i * rows.stride, n * sizeof(T));
    std::fill(to + n, to + stride, T{0});
  }
}

}  // namespace

SmallShape shape_of(const Qubo& qubo) {
  if (qubo.size() > kMostSmall) {
    throw std::logic_error("a small model has " + std::to_string(kMostSmall) + " variables at most, got " +
                           std::to_string(qubo.size()));
  }
  const std::int32_t largest = qubo.largest_coupling();
  const unsigned bytes = largest <= std::numeric_limits<std::int8_t>::max()    ? 1
                         : largest <= std::numeric_limits<std::int16_t>::max() ? 2
                                                                               : 4;
  return {bytes, *std::find_if(kSlots.begin(), kSlots.end(), [&](unsigned s) { return 32 * s >= qubo.size(); })};
}

std::size_t index_of(const SmallShape& shape) {
  const auto bytes = std::find(kRowBytes.begin(), kRowBytes.end(), shape.row_bytes) - kRowBytes.begin();
  const auto slots = std::find(kSlots.begin(), kSlots.end(), shape.slots) - kSlots.begin();
  return static_cast<std::size_t>(bytes) * kSlots.size() + static_cast<std::size_t>(slots);
}

SmallModels::SmallModels(Batch& batch, std::vector<const Qubo*> qubos) : batch_(batch), qubos_(std::move(qubos)) {
  std::size_t rows = 0, linear = 0;
  for (std::size_t m = 0; m < qubos_.size(); ++m) {
    const std::size_t n = qubos_[m]->size();
    shapes_.push_back(shape_of(*qubos_[m]));
    groups_[shapes_[m]].push_back(m);
    row_at_.push_back(rows);
    linear_at_.push_back(linear);
    rows += (n * shapes_[m].stride() * shapes_[m].row_bytes + kAlignment - 1) / kAlignment * kAlignment;
    linear += n;
  }
  rows_ = batch_.input<std::byte>(rows);
  linear_ = batch_.input<std::int32_t>(linear);
  models_ = batch_.input<SmallModel>(qubos_.size());
}

void SmallModels::fill(int threads) {
  Control control(std::numeric_limits<double>::infinity());
  const auto rows = batch_.host(rows_);
  const auto linear = batch_.host(linear_);
  const auto models = batch_.host(models_);
  parallel_for(qubos_.size(), threads, control, [&](std::size_t m) {
    const Qubo& qubo = *qubos_[m];
    const std::size_t n = qubo.size(), stride = shapes_[m].stride();
    std::byte* const to = rows.data() + row_at_[m];
    if (shapes_[m].row_bytes == 1) {
      copy_rows(qubo.rows8(), n, stride, to);
    } else if (shapes_[m].row_bytes == 2) {
      copy_rows(qubo.rows16(), n, stride, to);
    } else {
      copy_rows(qubo.rows32(), n, stride, to);
    }
    std::copy(qubo.linear().begin(), qubo.linear().end(), linear.data() + linear_at_[m]);
    models[m] = {batch_.device(rows_) + row_at_[m], batch_.device(linear_) + linear_at_[m],
                 static_cast<std::uint32_t>(n), qubo.largest_coupling()};
  });
}

std::size_t SmallModels::shared_bytes(std::span<const std::size_t> models) const {
  std::size_t most = 0;
  for (std::size_t m : models) {
    if (shapes_[m].row_bytes < 4) most = std::max(most, qubos_[m]->size() * shapes_[m].stride() * shapes_[m].row_bytes);
  }
  return most;
}

}  // namespace isinglass::cuda
