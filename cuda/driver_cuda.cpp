#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
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

namespace {

void* const* arguments_of(const Step& step, void*& held) {
  held = const_cast<std::byte*>(step.args.data());
  return &held;
}

/// Lets a kernel have the shared memory that a launch of it asks for.
void allow(const Step& step, int device) {
  constexpr std::size_t kWithoutAsking = 48 << 10;
  if (step.shape.shared_bytes <= kWithoutAsking) return;
  check(cudaFuncSetAttribute(step.kernel->entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(step.shape.shared_bytes)),
        device, std::string("kernel ") + step.kernel->name);
}

std::string what(const Step& step) {
  switch (step.kind) {
    case Step::Kind::upload:
      return "copying " + std::to_string(step.bytes) + " bytes to it";
    case Step::Kind::download:
      return "copying " + std::to_string(step.bytes) + " bytes from it";
    case Step::Kind::launch:
      break;
  }
  return std::string("kernel ") + step.kernel->name;
}

cudaMemcpyKind direction(const Step& step) {
  return step.kind == Step::Kind::upload ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
}

bool launches(const Step& step) { return step.kind == Step::Kind::launch; }

/// The next pair of events, to lie around launches.
const std::pair<cudaEvent_t, cudaEvent_t>& next_span(Stream* stream) {
  if (stream->launched == stream->spans.size()) {
    auto& [begin, end] = stream->spans.emplace_back();
    check(cudaEventCreate(&begin), stream->device, "making an event");
    check(cudaEventCreate(&end), stream->device, "making an event");
  }
  return stream->spans[stream->launched++];
}

cudaKernelNodeParams node_params(const Step& step, void*& held) {
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(step.kernel->entry);
  params.gridDim = dim3(step.shape.blocks);
  params.blockDim = dim3(step.shape.threads);
  params.sharedMemBytes = static_cast<unsigned>(step.shape.shared_bytes);
  params.kernelParams = const_cast<void**>(arguments_of(step, held));
  return params;
}

}  // namespace

void enqueue(Stream* stream, std::span<const Step> steps) {
  use(stream->device);
  for (const Step& step : steps) {
    if (!launches(step)) {
      check(cudaMemcpyAsync(step.to, step.from, step.bytes, direction(step), stream->stream), stream->device,
            what(step));
      continue;
    }
    allow(step, stream->device);
    const auto& [begin, end] = next_span(stream);
    void* held = nullptr;
    check(cudaEventRecord(begin, stream->stream), stream->device, what(step));
    check(cudaLaunchKernel(step.kernel->entry, dim3(step.shape.blocks), dim3(step.shape.threads),
                           const_cast<void**>(arguments_of(step, held)), step.shape.shared_bytes, stream->stream),
          stream->device, what(step));
    check(cudaEventRecord(end, stream->stream), stream->device, what(step));
  }
}

/// A chain of nodes, one a step, with two more that record events around the launches.
struct Graph {
  explicit Graph(int device_in) : device(device_in) {}
  ~Graph() {
    if (cudaSetDevice(device) == cudaSuccess) {
      if (exec != nullptr) cudaGraphExecDestroy(exec);
      if (graph != nullptr) cudaGraphDestroy(graph);
    }
    cudaGetLastError();
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  int device;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  std::vector<cudaGraphNode_t> nodes;  // one a step
  cudaGraphNode_t begin = nullptr, end = nullptr;
};

Graph* make_graph(Stream* stream, std::span<const Step> steps) {
  use(stream->device);
  auto made = std::make_unique<Graph>(stream->device);
  const auto checked = [&](cudaError_t error) { check(error, stream->device, "making a graph"); };
  checked(cudaGraphCreate(&made->graph, 0));
  const std::pair<cudaEvent_t, cudaEvent_t> span = next_span(stream);
  --stream->launched;  // they only hold the place: every replay names its own
  cudaGraphNode_t last = nullptr;
  const auto after = [&] { return last == nullptr ? nullptr : &last; };
  const auto count = [&] { return last == nullptr ? std::size_t{0} : std::size_t{1}; };
  const auto record = [&](cudaEvent_t event) {
    cudaGraphNode_t node = nullptr;
    checked(cudaGraphAddEventRecordNode(&node, made->graph, after(), count(), event));
    return last = node;
  };
  const auto last_launch = std::find_if(steps.rbegin(), steps.rend(), launches);
  for (const Step& step : steps) {
    cudaGraphNode_t node = nullptr;
    if (launches(step)) {
      if (made->begin == nullptr) made->begin = record(span.first);
      allow(step, stream->device);
      void* held = nullptr;
      const cudaKernelNodeParams params = node_params(step, held);
      checked(cudaGraphAddKernelNode(&node, made->graph, after(), count(), &params));
    } else {
      checked(cudaGraphAddMemcpyNode1D(&node, made->graph, after(), count(), step.to, step.from, step.bytes,
                                       direction(step)));
    }
    made->nodes.push_back(last = node);
    if (last_launch != steps.rend() && &step == &*last_launch) made->end = record(span.second);
  }
  checked(cudaGraphInstantiateWithFlags(&made->exec, made->graph, 0));
  return made.release();
}

void replay(Stream* stream, Graph* graph, std::span<const Step> steps) {
  use(stream->device);
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const Step& step = steps[k];
    if (launches(step)) {
      allow(step, stream->device);
      void* held = nullptr;
      const cudaKernelNodeParams params = node_params(step, held);
      check(cudaGraphExecKernelNodeSetParams(graph->exec, graph->nodes[k], &params), stream->device, what(step));
    } else {
      check(cudaGraphExecMemcpyNodeSetParams1D(graph->exec, graph->nodes[k], step.to, step.from, step.bytes,
                                               direction(step)),
            stream->device, what(step));
    }
  }
  if (graph->begin != nullptr) {
    const auto& [begin, end] = next_span(stream);
    check(cudaGraphExecEventRecordNodeSetEvent(graph->exec, graph->begin, begin), stream->device, "timing a graph");
    check(cudaGraphExecEventRecordNodeSetEvent(graph->exec, graph->end, end), stream->device, "timing a graph");
  }
  check(cudaGraphLaunch(graph->exec, stream->stream), stream->device, "launching a graph");
}

void release(Graph* graph) noexcept { delete graph; }

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

int device_of(const void* memory) {
  cudaPointerAttributes attributes;
  check(cudaPointerGetAttributes(&attributes, memory), 0, "asking where an array lies");
  return attributes.type == cudaMemoryTypeUnregistered ? -1 : attributes.device;
}

bool lost(int device) noexcept {
  cudaGetLastError();
  const bool works = cudaSetDevice(device) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
  cudaGetLastError();
  return !works;
}

void reset(int device) noexcept {
  cudaSetDevice(device);  // says that the device is lost, too
  cudaDeviceReset();
  cudaGetLastError();
}

}  // namespace isinglass::cuda::driver
