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
  int released_unknown = 0;                           // pieces of memory that were not there, or no longer
  int held_at_reset = 0;                              // streams of a device that was reset nevertheless
  int of_others = 0;                                  // where memory lies that was not allocated here; -1: on none
};
EmulatedDevices& emulated_devices();

}  // namespace isinglass::cuda::driver
