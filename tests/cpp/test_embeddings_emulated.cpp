// Kernel logic tests of embeddings on host emulation: unit rows and sums of rows are those of the CPU, bit for bit.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "check.hpp"
#include "embeddings.hpp"
#include "emulated.hpp"
#include "isinglass/control.hpp"
#include "isinglass/random.hpp"

namespace isinglass::cuda {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

std::vector<float> random_rows(std::size_t n, std::size_t d) {
  std::vector<float> rows(n * d);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    rows[k] = static_cast<float>(random_bits(n, d, 0, static_cast<std::uint32_t>(k))) * 0x1p-32f - 0.4f;
  }
  for (std::size_t k = 0; k < d; ++k) rows[n / 2 * d + k] = 0;  // without a direction
  return rows;
}

std::vector<std::uint64_t> bits_of(const Embeddings& embeddings, Control& control) {
  std::vector<std::uint64_t> bits;
  const Embeddings::Sums sums = embeddings.sums(1, control);
  for (double x : sums.rows) bits.push_back(std::bit_cast<std::uint64_t>(x));
  for (double x : sums.columns) bits.push_back(std::bit_cast<std::uint64_t>(x));
  std::vector<float> row(embeddings.num_panels() * Embeddings::kPanel);
  for (std::size_t i : {std::size_t{0}, embeddings.size() / 2, embeddings.size() - 1}) {
    embeddings.row(i, row.data());
    for (float x : row) bits.push_back(std::bit_cast<std::uint32_t>(x));
  }
  return bits;
}

struct Size {
  std::size_t n, d, sample;
  bool on_device;
};

/// How many sizes differ between the device and the CPU.
std::size_t differing(std::initializer_list<Size> sizes) {
  std::size_t count = 0;
  for (const Size& size : sizes) {
    const std::vector<float> rows = random_rows(size.n, size.d);
    std::vector<std::int32_t> sample;
    for (std::size_t k = 0; k < size.sample; ++k) sample.push_back(static_cast<std::int32_t>(k * size.n / size.sample));
    Control control(kForever);
    EmbeddingRows given{rows.data(), nullptr, size.n, size.d, sample};
    if (size.on_device) std::swap(given.host, given.device);  // memory of an emulated device is the host's
    const std::unique_ptr<Embeddings> found = embed(given, 0, control);
    const Embeddings wanted =
        sample.empty() ? Embeddings(rows.data(), size.n, size.d) : Embeddings(rows.data(), size.n, size.d, sample);
    if (bits_of(*found, control) == bits_of(wanted, control)) continue;
    std::cerr << "n = " << size.n << ", d = " << size.d << ", sample of " << size.sample << " differs\n";
    ++count;
  }
  return count;
}

/// The same of the products of two matrices, of which either may lie on the device.
std::size_t differing_cosines(std::initializer_list<Size> sizes) {
  std::size_t count = 0;
  for (const Size& size : sizes) {
    const std::vector<float> rows = random_rows(size.n, size.d), others = random_rows(size.sample, size.d);
    Control control(kForever);
    std::vector<float> wanted(size.n * size.sample), found(wanted.size(), -1);
    Embeddings(others.data(), size.sample, size.d).of_rows(rows.data(), size.n, wanted.data(), 2, control);
    const SomeRows first{size.on_device ? nullptr : rows.data(), size.on_device ? rows.data() : nullptr, size.n};
    cosines(first, {others.data(), nullptr, size.sample}, size.d, 0, size.on_device ? found.data() : nullptr,
            found.data(), control);
    if (found == wanted) continue;
    std::cerr << size.n << " and " << size.sample << " rows of " << size.d << " differ\n";
    ++count;
  }
  return count;
}

}  // namespace

namespace {

/// How many sizes differ in their rows and excesses.
std::size_t differing_similarities(std::initializer_list<Size> sizes) {
  std::size_t count = 0;
  for (const Size& size : sizes) {
    const std::vector<float> rows = random_rows(size.n, size.d);
    std::vector<std::int32_t> sample;
    for (std::size_t k = 0; k < size.sample; ++k) sample.push_back(static_cast<std::int32_t>(k * size.n / size.sample));
    EmbeddingRows given{rows.data(), nullptr, size.n, size.d, sample};
    if (size.on_device) std::swap(given.host, given.device);
    const Embeddings embeddings =
        sample.empty() ? Embeddings(rows.data(), size.n, size.d) : Embeddings(rows.data(), size.n, size.d, sample);
    const std::unique_ptr<SimilarityDevice> device = similarities(given, 0);
    const std::size_t width = embeddings.num_panels() * Embeddings::kPanel;
    std::vector<std::size_t> items;
    for (std::size_t i = 0; i < size.n; i += 1 + size.n / 150) items.push_back(i);
    std::vector<double> floor(width);
    for (std::size_t c = 0; c < width; ++c) floor[c] = static_cast<double>(c % 7) / 10;
    std::vector<std::int32_t> panels;
    for (std::size_t p = 0; p < embeddings.num_panels(); ++p) {
      if (p % 3 != 1) panels.push_back(static_cast<std::int32_t>(p));
    }
    std::vector<double> found(items.size());
    device->excess(items, panels, floor, found.data());
    bool same = true;
    std::vector<float> row(width), own(width);
    for (std::size_t k = 0; k < items.size(); ++k) {
      embeddings.row(items[k], row.data());
      device->row(items[k], own.data());
      double lane[Embeddings::kPanel] = {};
      for (std::size_t b = 0; b < panels.size(); ++b) {
        for (std::size_t l = 0; l < Embeddings::kPanel; ++l) {
          const std::size_t c = static_cast<std::size_t>(panels[b]) * Embeddings::kPanel + l;
          lane[l] += std::max(0.0, static_cast<double>(row[c]) - floor[c]);
        }
      }
      for (std::size_t distance = Embeddings::kPanel / 2; distance > 0; distance /= 2) {
        for (std::size_t l = 0; l < distance; ++l) lane[l] += lane[l + distance];
      }
      same = same && row == own && std::bit_cast<std::uint64_t>(found[k]) == std::bit_cast<std::uint64_t>(lane[0]);
    }
    if (!same) ++count;
  }
  return count;
}

}  // namespace

TEST(emulated_similarities_equal_those_of_the_cpu) {
  CHECK(differing_similarities({{1, 1, 0, false}, {200, 17, 0, true}, {150, 5, 40, true}, {40, 33, 40, false}}) == 0);
  check_in_any_order([] { return differing_similarities({{20, 18, 0, false}}); }, std::size_t{0});
}

TEST(emulated_cosines_equal_those_of_the_cpu) {
  CHECK(differing_cosines({{1, 1, 1, false}, {130, 17, 40, true}, {20, 33, 200, false}, {300, 5, 140, true}}) == 0);
  check_in_any_order([] { return differing_cosines({{140, 18, 150, false}}); }, std::size_t{0});
  CHECK(check_every_barrier([] { return differing_cosines({{20, 50, 30, false}}); }, std::size_t{0}) == 2);
}

TEST(emulated_embeddings_equal_those_of_the_cpu) {
  CHECK(differing({{1, 1, 0, false},
                   {5, 3, 0, false},
                   {127, 16, 0, false},
                   {129, 17, 0, true},
                   {300, 33, 0, false},
                   {200, 9, 30, false},
                   {16384 + 140, 2, 20, true}}) == 0);
}

TEST(emulated_embeddings_in_any_order) {
  check_in_any_order([] { return differing({{140, 18, 0, false}, {150, 5, 17, false}}); }, std::size_t{0});
}

TEST(emulated_embeddings_need_every_barrier) {
  CHECK(check_every_barrier([] { return differing({{140, 50, 0, false}}); }, std::size_t{0}) == 2);
}

TEST(emulated_embeddings_refuse_what_is_not_finite) {
  std::vector<float> rows = random_rows(40, 4);
  rows[4 * 33 + 1] = std::numeric_limits<float>::infinity();
  Control control(kForever);
  CHECK_THROWS(embed({rows.data(), nullptr, 40, 4, {}}, 0, control), std::invalid_argument);
  Control over(0);
  rows[4 * 33 + 1] = 1;
  CHECK(embed({rows.data(), nullptr, 40, 4, {}}, 0, over) == nullptr);
}

}  // namespace isinglass::cuda
