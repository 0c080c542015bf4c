// Arrays of many problems, laid out one after another in memory that a batch copies to its device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace isinglass::cuda {

// What is staged, computed and read at a time: while the device works on one portion the host fills the next. So many
// problems keep the device busy, and take it a few milliseconds.
inline constexpr std::size_t kPortionProblems = 1024;
inline constexpr std::size_t kPortionBytes = std::size_t{32} << 20, kMostPortionBytes = std::size_t{512} << 20;

/// The end of the portion that begins at problem `first`; `bytes_of(i)` of each.
template <class Bytes>
std::size_t end_of_portion(std::size_t first, std::size_t count, Bytes bytes_of) {
  std::size_t last = first, bytes = 0;
  while (last < count && (bytes < kPortionBytes || (bytes < kMostPortionBytes && last - first < kPortionProblems))) {
    bytes += bytes_of(last++);
  }
  return last;
}

/// Lays out the arrays of one problem from `at` bytes on, and copies them unless it only measures.
class Stage {
 public:
  /// Measures: nothing is copied, and pointers that it gives are good for telling absent arrays alone.
  Stage() : Stage(nullptr, reinterpret_cast<const std::byte*>(kAlignment), 0) {}
  Stage(std::byte* host, const std::byte* device, std::size_t at)
      : host_(host), device_(reinterpret_cast<std::uintptr_t>(device)), at_(at) {}

  std::size_t at() const { return at_; }

  /// Where `count` entries, written by `fill`, lie on the device.
  template <class T, class Fill>
  const T* place(std::size_t count, Fill fill) {
    const std::size_t begin = at_;
    at_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    if (host_ != nullptr) fill(reinterpret_cast<T*>(host_ + begin));
    return reinterpret_cast<const T*>(device_ + begin);
  }
  template <class T>
  const T* copy(std::span<const T> values) {
    return place<T>(values.size(), [&](T* to) { std::copy(values.begin(), values.end(), to); });
  }

 private:
  static constexpr std::size_t kAlignment = 16;
  std::byte* host_;
  std::uintptr_t device_;
  std::size_t at_;
};

}  // namespace isinglass::cuda
