// Exact sums of doubles, on host and device.
#pragma once

#include "isinglass/random.hpp"

namespace isinglass {

/// A sum held exactly as parts that do not overlap (Shewchuk 1997, "Adaptive precision floating-point arithmetic").
class Expansion {
 public:
  ISINGLASS_HOST_DEVICE void clear() { count_ = 0; }

  ISINGLASS_HOST_DEVICE void add(double value) {
    int kept = 0;
    for (int k = 0; k < count_; ++k) {
      double part = parts_[k];
      if (magnitude(value) < magnitude(part)) {
        const double larger = part;
        part = value;
        value = larger;
      }
      const double high = value + part;
      const double low = part - (high - value);
      if (low != 0) parts_[kept++] = low;
      value = high;
    }
    parts_[kept] = value;
    count_ = kept + 1;
  }

  /// The double nearest to the sum, ties to even.
  ISINGLASS_HOST_DEVICE double rounded() const {
    if (count_ == 0) return 0;
    int k = count_;
    double high = parts_[--k], low = 0;
    while (k > 0) {
      const double x = high, y = parts_[--k];
      high = x + y;
      low = y - (high - x);
      if (low != 0) break;
    }
    // `low` lost to rounding: what is still below it decides a tie.
    if (k > 0 && ((low < 0 && parts_[k - 1] < 0) || (low > 0 && parts_[k - 1] > 0))) {
      const double twice = low * 2, x = high + twice;
      if (twice == x - high) high = x;
    }
    return high;
  }

 private:
  // The bits of all doubles span less than 40 significands; one more while it grows.
  static constexpr int kMost = 41;

  ISINGLASS_HOST_DEVICE static double magnitude(double x) { return x < 0 ? -x : x; }

  double parts_[kMost];
  int count_ = 0;
};

}  // namespace isinglass
