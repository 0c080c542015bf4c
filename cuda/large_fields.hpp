// The fields of one replica of a large dense model in the shared memory of its block. A thread owns whole chunks of 16
// variables: it alone writes their fields, and loads their couplings 16 bytes at a time. Four by four they lie such
// that the lanes of a warp touch neighbouring 16 bytes.
#pragma once

#include "kernel.hpp"
#include "large_model.hpp"

namespace isinglass::cuda {

struct alignas(16) FourFields {
  std::int32_t at[4];
};

template <class Row>
class LargeFields {
 public:
  ISINGLASS_DEVICE LargeFields(const LargeModel& model, std::int32_t* fields) : model_(model), fields_(fields) {}

  /// Those of the state of all zeros.
  ISINGLASS_DEVICE void clear() const {
    for_own([&](std::uint32_t c, std::uint32_t sub, FourFields& four) {
      ISINGLASS_UNROLL
      for (std::uint32_t r = 0; r < 4; ++r) {
        const std::uint32_t v = kChunk * c + 4 * sub + r;
        four.at[r] = v < model_.n ? model_.linear[v] : 0;
      }
    });
  }

  /// Adds row i, or subtracts it. Own fields alone, so no barrier is needed between two rows.
  ISINGLASS_DEVICE void add(std::uint32_t i, bool down) const {
    struct alignas(16) Part {
      Row at[16 / sizeof(Row)];
    };
    constexpr std::uint32_t kParts = sizeof(Row);  // of 16 bytes, in a chunk
    constexpr std::uint32_t kInPart = kChunk / kParts;
    const Row* const row = static_cast<const Row*>(model_.rows) + std::size_t{i} * model_.stride;
    const std::int32_t sign = down ? -1 : 1;
    for (std::uint32_t c = thread_index(); c < (model_.n + kChunk - 1) / kChunk; c += block_size()) {
      Part parts[kParts];
      ISINGLASS_UNROLL
      for (std::uint32_t p = 0; p < kParts; ++p) parts[p] = reinterpret_cast<const Part*>(row + kChunk * c)[p];
      ISINGLASS_UNROLL
      for (std::uint32_t sub = 0; sub < 4; ++sub) {
        FourFields four = *own(c, sub);
        ISINGLASS_UNROLL
        for (std::uint32_t r = 0; r < 4; ++r) {
          const std::uint32_t k = 4 * sub + r;
          four.at[r] += sign * parts[k / kInPart].at[k % kInPart];
        }
        *own(c, sub) = four;
      }
    }
  }

  ISINGLASS_DEVICE std::int32_t of(std::uint32_t v) const {
    return fields_[v / kGroup * kGroup + v / 4 % 4 * 128 + v / kChunk % 32 * 4 + v % 4];
  }
  /// Of variables i and v < stride.
  ISINGLASS_DEVICE std::int32_t coupling(std::uint32_t i, std::uint32_t v) const {
    return static_cast<const Row*>(model_.rows)[std::size_t{i} * model_.stride + v];
  }

  /// To and from device memory, own ones alone.
  ISINGLASS_DEVICE void load(const std::int32_t* from) const {
    for_own([&](std::uint32_t c, std::uint32_t sub, FourFields& four) {
      four = *reinterpret_cast<const FourFields*>(from + place(c, sub));
    });
  }
  ISINGLASS_DEVICE void store(std::int32_t* to) const {
    for_own([&](std::uint32_t c, std::uint32_t sub, const FourFields& four) {
      *reinterpret_cast<FourFields*>(to + place(c, sub)) = four;
    });
  }

 private:
  ISINGLASS_DEVICE static std::uint32_t place(std::uint32_t c, std::uint32_t sub) {
    return c / 32 * kGroup + sub * 128 + c % 32 * 4;
  }
  ISINGLASS_DEVICE FourFields* own(std::uint32_t c, std::uint32_t sub) const {
    return reinterpret_cast<FourFields*>(fields_ + place(c, sub));
  }
  template <class Visit>
  ISINGLASS_DEVICE void for_own(Visit visit) const {
    for (std::uint32_t c = thread_index(); c < (model_.n + kChunk - 1) / kChunk; c += block_size()) {
      ISINGLASS_UNROLL
      for (std::uint32_t sub = 0; sub < 4; ++sub) visit(c, sub, *own(c, sub));
    }
  }

  const LargeModel& model_;
  std::int32_t* fields_;
};

}  // namespace isinglass::cuda
