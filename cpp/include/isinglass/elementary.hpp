// Logarithm and exponential from plain IEEE operations in a fixed order. The ones of the C library differ in the last
// bit between libraries and between machines with and without fused multiply-add; these cannot.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace isinglass {

inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;

/// ln x for normal x > 0, within 2 units of the last place of max(|ln x|, ln 2).
inline double natural_logarithm(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2 artanh s with |s| < 0.1716: s^25 / 25 is below 2^-68.
  const double s = (m - 1.0) / (m + 1.0), square = s * s;
  double sum = 0.0;
  for (int odd = 23; odd >= 1; odd -= 2) sum = sum * square + 1.0 / odd;
  return exponent * kLn2 + 2.0 * s * sum;
}

/// e^x for |x| <= 700, relative error below 2^-50.
inline double exponential(double x) {
  const double k = std::floor(x / kLn2 + 0.5);
  constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;  // k * kLn2High is exact
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1.0;
  for (int i = 14; i >= 1; --i) sum = 1.0 + r / i * sum;
  return std::ldexp(sum, static_cast<int>(k));
}

}  // namespace isinglass
