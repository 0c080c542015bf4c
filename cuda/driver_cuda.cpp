#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "driver.hpp"

namespace isinglass::cuda::driver {
namespace {

constexpr int kOldest = 8;  // major compute capability that CMakeLists.txt compiles for

std::string text(cudaError_t error) { return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error); }

void check(cudaError_t error, int device, const std::string& what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // an error that is not of the context is forgotten: the next call works
  throw DeviceError("CUDA device " + std::to_string(device) + ", " + what + ": " + text(error));
}

void use(int device) { check(cudaSetDevice(device), device, "selecting it"); }

std::string version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

}  // namespace

struct Stream {
  int device;
  cudaStream_t stream;
  std::vector<std::pair<cudaEvent_t, cudaEvent_t>> spans;  // around launches; the first `launched` are in use
  std::size_t launched = 0;
};

std::string unavailable() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    return driver == 0 ? "no CUDA driver is installed"
                       : "the CUDA driver is too old: it knows CUDA " + version(driver) + ", this build needs " +
                             version(CUDART_VERSION);
  }
  if (error != cudaSuccess) return text(error);
  if (count == 0) return "no CUDA device was found";
  cudaDeviceProp properties;
  if (const cudaError_t asked = cudaGetDeviceProperties(&properties, 0); asked != cudaSuccess) return text(asked);
  if (properties.major < kOldest) {
    return std::string(properties.name) + " has compute capability " + std::to_string(properties.major) + "." +
           std::to_string(properties.minor) + ", this build needs " + std::to_string(kOldest) + ".0 or newer";
  }
  return {};
}

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  return count;
}

DeviceInfo info(int device) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), device, "asking for its properties");
  int kilohertz = 0;  // no longer among the properties
  check(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device), device, "asking for its clock");
  return {properties.name,
          "sm_" + std::to_string(properties.major * 10 + properties.minor),
          properties.multiProcessorCount,
          kilohertz * 1e3,
          properties.sharedMemPerBlockOptin,
          properties.totalGlobalMem};
}

Memory memory(int device) {
  use(device);
  Memory found{};
  check(cudaMemGetInfo(&found.free, &found.total), device, "asking for its memory");
  return found;
}

void* allocate(int device, std::size_t bytes) {
  use(device);
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    const std::size_t free = driver::memory(device).free;
    throw OutOfDeviceMemory("CUDA device " + std::to_string(device) + " needs " + std::to_string(bytes) +
                            " bytes, got none: " + std::to_string(free) + " are free, in pieces");
  }
  check(error, device, "allocating " + std::to_string(bytes) + " bytes");
  return memory;
}

void release(int device, void* memory) noexcept {
  if (cudaSetDevice(device) == cudaSuccess) cudaFree(memory);
  cudaGetLastError();
}

void* allocate_pinned(int device, std::size_t bytes) {
  use(device);
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), device,
        "pinning " + std::to_string(bytes) + " bytes of host memory");
  return memory;
}

void release_pinned(int device, void* memory) noexcept {
  if (cudaSetDevice(device) == cudaSuccess) cudaFreeHost(memory);
  cudaGetLastError();
}

Stream* make_stream(int device) {
  use(device);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), device, "making a stream");
  return new Stream{device, stream, {}};
}

void release(Stream* stream) noexcept {
  if (cudaSetDevice(stream->device) == cudaSuccess) {
    for (const auto& [begin, end] : stream->spans) {
      cudaEventDestroy(begin);
      cudaEventDestroy(end);
    }
    cudaStreamDestroy(stream->stream);
  }
  cudaGetLastError();
  delete stream;
}

void upload(Stream* stream, void* to, const void* from, std::size_t bytes) {
  use(stream->device);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream->stream), stream->device,
        "copying " + std::to_string(bytes) + " bytes to it");
}

void download(Stream* stream, void* to, const void* from, std::size_t bytes) {
  use(stream->device);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream->stream), stream->device,
        "copying " + std::to_string(bytes) + " bytes from it");
}

void launch(Stream* stream, const Kernel& kernel, const Shape& shape, const void* args) {
  constexpr std::size_t kWithoutAsking = 48 << 10;
  use(stream->device);
  const std::string what = std::string("kernel ") + kernel.name;
  if (shape.shared_bytes > kWithoutAsking) {
    check(cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.shared_bytes)),
          stream->device, what);
  }
  if (stream->launched == stream->spans.size()) {
    auto& [begin, end] = stream->spans.emplace_back();
    check(cudaEventCreate(&begin), stream->device, "making an event");
    check(cudaEventCreate(&end), stream->device, "making an event");
  }
  const auto& [begin, end] = stream->spans[stream->launched++];
  void* arguments[] = {const_cast<void*>(args)};
  check(cudaEventRecord(begin, stream->stream), stream->device, what);
  check(cudaLaunchKernel(kernel.entry, dim3(shape.blocks), dim3(shape.threads), arguments, shape.shared_bytes,
                         stream->stream),
        stream->device, what);
  check(cudaEventRecord(end, stream->stream), stream->device, what);
}

double wait(Stream* stream) {
  check(cudaStreamSynchronize(stream->stream), stream->device, "waiting for its work");
  double seconds = 0;
  for (; stream->launched > 0; --stream->launched) {
    const auto& [begin, end] = stream->spans[stream->launched - 1];
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), stream->device, "asking for the time of a kernel");
    seconds += static_cast<double>(milliseconds) * 1e-3;
  }
  return seconds;
}

void settle(int device) {
  use(device);
  check(cudaDeviceSynchronize(), device, "waiting for the work of others");
}

bool recover(int device) noexcept {
  cudaGetLastError();
  if (cudaSetDevice(device) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess) return false;
  cudaDeviceReset();
  cudaGetLastError();
  return true;
}

}  // namespace isinglass::cuda::driver
