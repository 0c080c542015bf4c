#include "device_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "isinglass/tabu.hpp"
#include "qubo_batch.hpp"
#include "runtime.hpp"

namespace isinglass::cuda {
namespace {

std::vector<FoldSummary> measured(const IntegerMatrix& matrix, int device) {
  Batch batch(device);
  const auto summaries = batch.output<FoldSummary>(matrix.n);
  batch.allocate();
  driver::settle(device);
  batch.launch(fold_measure, {(matrix.n + 31) / 32, 32, fold_bytes(matrix.bytes)},
               FoldArgs{matrix, batch.device(summaries)});
  batch.download();
  batch.wait();
  const auto found = batch.host(summaries);
  return {found.begin(), found.end()};
}

[[noreturn]] void refuse(const std::string& expected, double got) {
  throw std::invalid_argument("Q on a device must keep " + expected + ", got " + std::to_string(got) +
                              ": give it as float64, which is scaled on the host");
}

}  // namespace

std::unique_ptr<Qubo> device_model(const IntegerMatrix& matrix, double offset, int device,
                                   std::vector<double>& linear) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const std::size_t n = matrix.n;
  const std::vector<FoldSummary> summaries = measured(matrix, device);
  std::int64_t granule = 0;
  double total = 0;
  for (const FoldSummary& s : summaries) {
    granule = std::gcd(granule, std::gcd(s.granule, s.linear));
    total += std::fabs(static_cast<double>(s.linear)) + static_cast<double>(s.high - s.low) / 2;
  }
  if (granule == 0) granule = 1;
  if (total >= kExact) refuse("sums within 2^53", total);

  Qubo::Parts parts;
  parts.scale = 1 / static_cast<double>(granule);
  linear.clear();
  for (const FoldSummary& s : summaries) {
    linear.push_back(static_cast<double>(s.linear));
    parts.largest_coupling = std::max(parts.largest_coupling, s.largest / granule);
    parts.worst_field = std::max(
        {parts.worst_field, s.largest / granule, (s.linear + s.high) / granule, -(s.linear + s.low) / granule});
    parts.num_couplings += s.pairs;
  }
  if (const auto worst = static_cast<double>(parts.worst_field); worst > kLargestField) {
    refuse("fields within 2^31 - 128 in units of their greatest common divisor", worst);
  }
  for (const FoldSummary& s : summaries) parts.linear.push_back(static_cast<std::int32_t>(s.linear / granule));
  const std::uint32_t bytes = bytes_of_rows(parts.largest_coupling);
  const auto rows = std::make_shared<DeviceRows>(device, n, stride_of(n), bytes, granule);
  Batch batch(device);
  const auto squares = batch.output<double>(n);
  batch.allocate();
  batch.launch(fold_pack, {static_cast<unsigned>(rows->stride / 32), 32, fold_bytes(matrix.bytes)},
               PackArgs{matrix, granule, rows->memory.as<void>(), static_cast<std::uint32_t>(rows->stride), bytes,
                        batch.device(squares)});
  batch.download();
  batch.wait();
  parts.square_sums.assign(batch.host(squares).begin(), batch.host(squares).end());
  parts.view.n = n;
  parts.view.linear = linear;
  parts.view.offset = offset;
  parts.couplings = rows;
  return std::make_unique<Qubo>(std::move(parts));
}

void energies_of(const Qubo& qubo, const std::uint8_t* states, std::size_t reads, int threads, double* out) {
  const DeviceRows* const there = device_rows(qubo);
  const std::size_t n = qubo.size(), words = words_of(n);
  if (there == nullptr) {
    on_threads(reads, threads, [&](std::size_t r) { energies(qubo.view(), states + r * n, 1, out + r); });
    return;
  }
  constexpr std::size_t kReadsAtOnce = 4096;
  for (std::size_t first = 0; first < reads; first += kReadsAtOnce) {
    const std::size_t count = std::min(kReadsAtOnce, reads - first);
    Batch batch(there->memory.device());
    const auto linear = batch.input<std::int32_t>(n);
    const auto packed = batch.input<std::uint32_t>(count * words);
    const auto found = batch.output<std::int64_t>(count);
    batch.allocate();
    std::ranges::copy(qubo.linear(), batch.host(linear).begin());
    on_threads(count, threads,
               [&](std::size_t r) { pack(states + (first + r) * n, n, batch.host(packed).data() + r * words); });
    batch.upload();
    const LargeModel model{there->memory.as<void>(), batch.device(linear), static_cast<std::uint32_t>(n),
                           static_cast<std::uint32_t>(there->stride)};
    batch.launch(read_energies, {static_cast<unsigned>(count), kEnergyThreads, sizeof(std::int64_t)},
                 ReadEnergiesArgs{model, there->bytes, batch.device(packed), batch.device(found)});
    batch.download();
    batch.wait();
    // Sums of whole numbers within 2^53: float64 has them exactly, in whatever order they are added.
    for (std::size_t r = 0; r < count; ++r) {
      out[first + r] = static_cast<double>(batch.host(found)[r] * there->granule) + qubo.view().offset;
    }
  }
}

}  // namespace isinglass::cuda
