#include "qubo_rows.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace isinglass::cuda {
namespace {

constexpr std::size_t kLanes = 32;

template <class T>
void pack(const DenseRows<T>& rows, std::size_t n, RowShape shape, std::uint32_t* words) {
  const std::size_t lane_words = shape.words();
  const std::size_t plane = std::min<std::size_t>(lane_words, 4) * sizeof(std::uint32_t);  // of a lane, one load
  std::memset(words, 0, n * shape.row_bytes());
  for (std::size_t i = 0; i < n; ++i) {
    char* const row = reinterpret_cast<char*>(words) + i * shape.row_bytes();
    const T* const values = rows.values.data() + i * rows.stride;
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t at = j / kLanes * sizeof(T), lane = j % kLanes;
      std::memcpy(row + at / plane * plane * kLanes + lane * plane + at % plane, values + j, sizeof(T));
    }
  }
}

}  // namespace

std::size_t RowShape::words() const {
  const std::size_t used = (blocks * bits + 31) / 32;
  return used <= 2 ? used : used <= 4 ? 4 : 8;
}

std::string_view no_shape(const Qubo& qubo) {
  return qubo.size() > kMostVariables ? "takes models of at most 256 variables" : std::string_view{};
}

RowShape row_shape(const Qubo& qubo, std::size_t shared_bytes) {
  constexpr std::array<unsigned, 6> kBlocks{1, 2, 3, 4, 5, 8};
  const auto needed = static_cast<unsigned>((qubo.size() + kLanes - 1) / kLanes);
  const unsigned blocks = *std::lower_bound(kBlocks.begin(), kBlocks.end(), std::max(1U, needed));
  const std::int32_t largest = qubo.largest_coupling();
  const auto fits = [&](RowShape shape, std::int32_t most) {
    return largest <= most && shape.shared_bytes(qubo.size()) <= shared_bytes;
  };
  if (const RowShape bytes{8, blocks}; fits(bytes, std::numeric_limits<std::int8_t>::max())) return bytes;
  if (const RowShape halves{16, blocks}; fits(halves, std::numeric_limits<std::int16_t>::max())) return halves;
  return {32, blocks};
}

void pack_rows(const Qubo& qubo, RowShape shape, std::uint32_t* words) {
  if (shape.bits == 8) {
    pack(qubo.rows8(), qubo.size(), shape, words);
  } else if (shape.bits == 16) {
    pack(qubo.rows16(), qubo.size(), shape, words);
  } else {
    pack(qubo.rows32(), qubo.size(), shape, words);
  }
}

}  // namespace isinglass::cuda
