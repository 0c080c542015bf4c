// Memory of a device that outlives the batch that fills it.
#pragma once

#include <cstddef>

#include "driver.hpp"

namespace isinglass::cuda {

class DeviceMemory {
 public:
  /// Throws OutOfDeviceMemory, with the bytes needed and free.
  DeviceMemory(int device, std::size_t bytes);
  /// Waits for all that is under way on the device: others may still read what they were given.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  int device() const { return device_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  int device_;
  std::size_t resets_;  // of the device when this was allocated
  void* memory_;
};

}  // namespace isinglass::cuda
