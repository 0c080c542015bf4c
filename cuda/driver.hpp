// The one interface to a device, with two bodies: driver_cuda.cpp (CUDA runtime) and driver_emulated.cpp (fibers).
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace isinglass::cuda {

/// A kernel as the host sees it; defined by ISINGLASS_KERNEL.
struct Kernel {
  const char* name;
  const void* entry;
  unsigned most_threads;
};

struct Shape {
  unsigned blocks;
  unsigned threads;  // of a block, a multiple of 32
  std::size_t shared_bytes = 0;
};

struct DeviceInfo {
  std::string name;
  std::string architecture;  // like sm_90
  int multiprocessors = 1;
  double clock_hertz = 0;        // the highest
  std::size_t shared_bytes = 0;  // of one block
  std::size_t memory = 0;
};

/// A call to the device failed: the message names the device, what was done, and the error.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// More device memory than is free was asked for; thrown before anything is launched. MemoryError in Python.
struct OutOfDeviceMemory : std::bad_alloc {
  explicit OutOfDeviceMemory(std::string message_in) : message(std::move(message_in)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

namespace driver {

/// Why no device can be used; empty when one can.
std::string unavailable();
int device_count();
DeviceInfo info(int device);
struct Memory {
  std::size_t free, total;
};
Memory memory(int device);

void* allocate(int device, std::size_t bytes);  // 256-byte aligned
void release(int device, void* memory) noexcept;
void* allocate_pinned(int device, std::size_t bytes);
void release_pinned(int device, void* memory) noexcept;

struct Stream;
Stream* make_stream(int device);
void release(Stream* stream) noexcept;

/// What a stream does: a copy to the device or from it, or a launch.
struct Step {
  enum class Kind : unsigned char { upload, download, launch };
  Kind kind;
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  const Kernel* kernel = nullptr;
  Shape shape{};
  std::vector<std::byte> args{};
};

/// Does them in order; nothing may touch the host ends of copies before `wait`.
void enqueue(Stream* stream, std::span<const Step> steps);

/// Steps that a device starts as one.
struct Graph;
Graph* make_graph(Stream* stream, std::span<const Step> steps);
/// The same as `enqueue`, for steps of the kinds and kernels that the graph was made of.
void replay(Stream* stream, Graph* graph, std::span<const Step> steps);
void release(Graph* graph) noexcept;

/// Returns the seconds that kernels ran since the last wait.
double wait(Stream* stream);

/// Waits for all that is under way on a device, on anyone's stream: then arrays of others may be read.
void settle(int device);
/// The device on which memory of anyone lies; -1 where it is on none.
int device_of(const void* memory);

/// After a failure: whether the device has lost what this process held there, all of it. `reset` lets the next call
/// start anew, once every stream, graph and piece of memory was released.
bool lost(int device) noexcept;
void reset(int device) noexcept;

}  // namespace driver
}  // namespace isinglass::cuda
