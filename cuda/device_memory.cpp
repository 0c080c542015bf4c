#include "device_memory.hpp"

#include <algorithm>

#include "runtime.hpp"

namespace isinglass::cuda {

DeviceMemory::DeviceMemory(int device, std::size_t bytes) : device_(device), resets_(resets(device)) {
  check_device(device);
  make_room(device, bytes);
  memory_ = driver::allocate(device, std::max<std::size_t>(1, bytes));
}

DeviceMemory::~DeviceMemory() {
  if (resets(device_) != resets_) return;
  try {
    driver::settle(device_);
  } catch (const DeviceError&) {  // a device that was lost has nothing under way
  }
  driver::release(device_, memory_);
}

}  // namespace isinglass::cuda
