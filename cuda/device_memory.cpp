#include "device_memory.hpp"

#include <algorithm>
#include <string>

#include "runtime.hpp"

namespace isinglass::cuda {

DeviceMemory::DeviceMemory(int device, std::size_t bytes) : device_(device) {
  check_device(device);
  if (const std::size_t free = driver::memory(device).free; bytes > free) {
    throw OutOfDeviceMemory("CUDA device " + std::to_string(device) + " needs " + std::to_string(bytes) +
                            " bytes, has " + std::to_string(free) + " free");
  }
  memory_ = driver::allocate(device, std::max<std::size_t>(1, bytes));
}

DeviceMemory::~DeviceMemory() {
  try {
    driver::settle(device_);
  } catch (const DeviceError&) {  // a device that was lost has nothing under way
  }
  driver::release(device_, memory_);
}

}  // namespace isinglass::cuda
