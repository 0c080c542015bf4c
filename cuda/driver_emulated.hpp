// Devices that tests make up.
#pragma once

#include <cstddef>
#include <string>

namespace isinglass::cuda::driver {

struct EmulatedDevices {
  int count = 2;
  std::string unavailable;                            // why there is none
  std::size_t memory = std::size_t{1} << 30;          // of each
  std::size_t shared_bytes = std::size_t{227} << 10;  // of a block
  std::string failure;                                // what the next launch fails with, once
  std::size_t launches = 0, replays = 0;              // so far
};
EmulatedDevices& emulated_devices();

}  // namespace isinglass::cuda::driver
