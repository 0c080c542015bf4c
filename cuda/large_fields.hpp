// The fields of one replica of a large dense model in the shared memory of its block. A thread owns whole chunks of 16
// variables: it alone writes their fields, and loads their couplings 16 bytes at a time. As many fields as 16 bytes
// hold lie side by side, such that the lanes of a warp touch neighbouring 16 bytes.
#pragma once

#include "kernel.hpp"
#include "large_model.hpp"

namespace isinglass::cuda {

struct alignas(16) FourWords {
  std::uint32_t at[4];
};

/// Entries of one `T` a variable, by chunk: `place` of the four words number `sub` of a chunk.
template <class T>
struct ChunkLayout {
  static constexpr std::uint32_t kInFour = 16 / sizeof(T);
  static constexpr std::uint32_t kFours = kChunk / kInFour;  // of a chunk

  ISINGLASS_DEVICE static std::uint32_t place(std::uint32_t c, std::uint32_t sub) {
    return c / 32 * kGroup + sub * 32 * kInFour + c % 32 * kInFour;
  }
  ISINGLASS_DEVICE static std::uint32_t of(std::uint32_t v) {
    return place(v / kChunk, v / kInFour % kFours) + v % kInFour;
  }
  ISINGLASS_DEVICE static FourWords* four(T* entries, std::uint32_t c, std::uint32_t sub) {
    return reinterpret_cast<FourWords*>(entries + place(c, sub));
  }
};

/// Of 32 bits, or of 16 where no field of the model leaves them: then a word holds those of two variables, half the
/// bytes pass, and two additions are one instruction.
template <class Row, class Field>
class LargeFields {
  using Layout = ChunkLayout<Field>;

 public:
  /// The fields of a chunk.
  struct Chunk {
    std::int32_t at[kChunk];
  };

  ISINGLASS_DEVICE LargeFields(const LargeModel& model, Field* fields) : model_(model), fields_(fields) {}

  /// Those of the state of all zeros.
  ISINGLASS_DEVICE void clear() const {
    for_own([&](std::uint32_t c) {
      for (std::uint32_t k = 0; k < kChunk; ++k) {
        const std::uint32_t v = kChunk * c + k;
        fields_[Layout::of(v)] = static_cast<Field>(v < model_.n ? model_.linear[v] : 0);
      }
    });
  }

  /// Adds row i, or subtracts it. Own fields alone, so no barrier is needed between two rows.
  ISINGLASS_DEVICE void add(std::uint32_t i, bool down) const {
    if (down) {
      add_row<true>(i);
    } else {
      add_row<false>(i);
    }
  }

  ISINGLASS_DEVICE std::int32_t of(std::uint32_t v) const { return fields_[Layout::of(v)]; }
  ISINGLASS_DEVICE Chunk chunk(std::uint32_t c) const {
    Chunk chunk;
    ISINGLASS_UNROLL
    for (std::uint32_t sub = 0; sub < Layout::kFours; ++sub) {
      const FourWords four = *Layout::four(fields_, c, sub);
      ISINGLASS_UNROLL
      for (std::uint32_t k = 0; k < Layout::kInFour; ++k) {
        chunk.at[sub * Layout::kInFour + k] =
            static_cast<Field>(four.at[k * sizeof(Field) / 4] >> k * 8 * sizeof(Field) % 32);
      }
    }
    return chunk;
  }
  /// Of variables i and v < stride.
  ISINGLASS_DEVICE std::int32_t coupling(std::uint32_t i, std::uint32_t v) const {
    return static_cast<const Row*>(model_.rows)[std::size_t{i} * model_.stride + v];
  }

  /// To and from device memory, own ones alone.
  ISINGLASS_DEVICE void load(const void* from) const {
    for_own_fours([&](std::uint32_t at, FourWords& four) { four = static_cast<const FourWords*>(from)[at]; });
  }
  ISINGLASS_DEVICE void store(void* to) const {
    for_own_fours([&](std::uint32_t at, const FourWords& four) { static_cast<FourWords*>(to)[at] = four; });
  }

 private:
  template <bool kDown>
  ISINGLASS_DEVICE void add_row(std::uint32_t i) const {
    constexpr std::uint32_t kParts = sizeof(Row);  // of 16 bytes, in a chunk
    const Row* const row = static_cast<const Row*>(model_.rows) + std::size_t{i} * model_.stride;
    for_own([&](std::uint32_t c) {
      FourWords parts[kParts];
      ISINGLASS_UNROLL
      for (std::uint32_t p = 0; p < kParts; ++p) parts[p] = reinterpret_cast<const FourWords*>(row + kChunk * c)[p];
      ISINGLASS_UNROLL
      for (std::uint32_t sub = 0; sub < Layout::kFours; ++sub) {
        FourWords four = *Layout::four(fields_, c, sub);
        ISINGLASS_UNROLL
        for (std::uint32_t w = 0; w < 4; ++w) four.at[w] = changed<kDown>(four.at[w], parts, 4 * sub + w);
        *Layout::four(fields_, c, sub) = four;
      }
    });
  }

  /// Word w of a chunk's fields after its couplings were added.
  template <bool kDown>
  ISINGLASS_DEVICE static std::uint32_t changed(std::uint32_t word, const FourWords* parts, std::uint32_t w) {
    const auto row = [&](std::uint32_t k) { return parts[k / 4].at[k % 4]; };
    if constexpr (sizeof(Field) == 2) {
      const std::uint32_t pair = sizeof(Row) == 2 ? row(w) : halves_of_bytes(row(w / 2), w % 2 != 0);
      return kDown ? subtract_halves(word, pair) : add_halves(word, pair);
    } else {
      constexpr std::uint32_t kFactor = kDown ? 0xff : 1;  // a byte
      const auto field = static_cast<std::int32_t>(word);
      if constexpr (sizeof(Row) == 1) {
        return static_cast<std::uint32_t>(dot4(row(w / 4), kFactor << w % 4 * 8, field));
      } else if constexpr (sizeof(Row) == 2) {
        return static_cast<std::uint32_t>(dot2(row(w / 2), kFactor << w % 2 * 8, field));
      } else {
        return kDown ? word - row(w) : word + row(w);
      }
    }
  }

  template <class Visit>
  ISINGLASS_DEVICE void for_own(Visit visit) const {
    for (std::uint32_t c = thread_index(); c < (model_.n + kChunk - 1) / kChunk; c += block_size()) visit(c);
  }
  template <class Visit>
  ISINGLASS_DEVICE void for_own_fours(Visit visit) const {
    for_own([&](std::uint32_t c) {
      ISINGLASS_UNROLL
      for (std::uint32_t sub = 0; sub < Layout::kFours; ++sub) {
        visit(Layout::place(c, sub) / Layout::kInFour, *Layout::four(fields_, c, sub));
      }
    });
  }

  const LargeModel& model_;
  Field* fields_;
};

}  // namespace isinglass::cuda
