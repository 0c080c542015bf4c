// A large dense model in a batch: its rows and biases, and the kernels for them.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>

#include "isinglass/qubo.hpp"
#include "large_kernels.hpp"
#include "runtime.hpp"

namespace isinglass::cuda {

class LargeRows {
 public:
  LargeRows(Batch& batch, const Qubo& qubo)
      : batch_(batch),
        qubo_(qubo),
        bytes_(qubo.largest_coupling() <= std::numeric_limits<std::int8_t>::max()    ? 1
               : qubo.largest_coupling() <= std::numeric_limits<std::int16_t>::max() ? 2
                                                                                     : 4),
        stride_((qubo.size() + 63) / 64 * 64),
        rows_(batch.input<std::byte>(qubo.size() * stride_ * bytes_)),
        linear_(batch.input<std::int32_t>(qubo.size())) {}

  void fill() const {
    const auto copy = [&](const auto& rows) {
      const auto* const from = reinterpret_cast<const std::byte*>(rows.values.data());
      std::copy(from, from + rows_.count, batch_.host(rows_).begin());
    };
    if (bytes_ == 1) {
      copy(qubo_.rows8());
    } else if (bytes_ == 2) {
      copy(qubo_.rows16());
    } else {
      copy(qubo_.rows32());
    }
    std::copy(qubo_.linear().begin(), qubo_.linear().end(), batch_.host(linear_).begin());
  }

  LargeModel device() const {
    return {batch_.device(rows_), batch_.device(linear_), static_cast<std::uint32_t>(qubo_.size()),
            static_cast<std::uint32_t>(stride_)};
  }

  /// Of three kernels, by the width of a coupling.
  const Kernel& pick(const Kernel& of8, const Kernel& of16, const Kernel& of32) const {
    return bytes_ == 1 ? of8 : bytes_ == 2 ? of16 : of32;
  }

  /// Threads of a replica: a warp goes over 2048 variables in the time that a row takes to arrive.
  unsigned threads() const {
    constexpr std::size_t kOfWarp = 2048;
    const std::size_t warps = std::bit_ceil((qubo_.size() + kOfWarp - 1) / kOfWarp);
    return static_cast<unsigned>(32 * std::clamp<std::size_t>(warps, 1, kLargeThreads / 32));
  }

 private:
  Batch& batch_;
  const Qubo& qubo_;
  std::size_t bytes_, stride_;
  Array<std::byte> rows_;
  Array<std::int32_t> linear_;
};

}  // namespace isinglass::cuda
