#include "isinglass/isa.hpp"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace isinglass {
namespace {

std::vector<Level> probe() {
  std::vector<Level> levels{Level::scalar, Level::v2};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v3")) levels.push_back(Level::v3);
  if (__builtin_cpu_supports("x86-64-v4")) levels.push_back(Level::v4);
#endif
  return levels;
}

std::atomic<Level>& in_force() {
  static std::atomic<Level> value{available_levels().back()};
  return value;
}

}  // namespace

std::string_view name(Level level) {
  switch (level) {
    case Level::scalar:
      return "scalar";
    case Level::v2:
      return "v2";
    case Level::v3:
      return "v3";
    case Level::v4:
      return "v4";
  }
  return "unknown";
}

std::span<const Level> available_levels() {
  static const std::vector<Level> levels = probe();
  return levels;
}

Level level() { return in_force().load(std::memory_order_relaxed); }

void force_level(std::string_view level_name) {
  std::string expected;
  for (Level candidate : available_levels()) {
    if (name(candidate) == level_name) {
      in_force().store(candidate, std::memory_order_relaxed);
      return;
    }
    expected += (expected.empty() ? "" : ", ") + std::string(name(candidate));
  }
  throw std::invalid_argument("ISINGLASS_ISA must be one of " + expected + " on this machine, got '" +
                              std::string(level_name) + "'");
}

}  // namespace isinglass
