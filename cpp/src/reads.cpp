#include "isinglass/reads.hpp"

#include "isinglass/parallel.hpp"

namespace isinglass {

std::size_t in_blocks(std::size_t count, std::size_t step, int threads, Control& control,
                      const std::function<void(std::size_t, std::size_t)>& body) {
  std::vector<std::uint8_t> begun((count + step - 1) / step);
  const auto walk = [&](std::size_t b) {
    begun[b] = 1;
    body(b * step, std::min(step, count - b * step));
  };
  parallel_for(begun.size(), threads, control, walk);
  if (!begun[0]) walk(0);
  const auto blocks = static_cast<std::size_t>(std::find(begun.begin(), begun.end(), 0) - begun.begin());
  return std::min(count, blocks * step);
}

}  // namespace isinglass
