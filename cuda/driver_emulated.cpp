#include "driver_emulated.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "driver.hpp"
#include "host_emulation.hpp"

namespace isinglass::cuda::driver {
namespace {

constexpr std::align_val_t kAlignment{256};
std::mutex mutex;
std::map<void*, std::pair<int, std::size_t>> allocated;  // device and size
std::map<int, int> streams;                              // of each device

std::size_t used(int device) {
  std::size_t bytes = 0;
  for (const auto& [memory, held] : allocated) bytes += held.first == device ? held.second : 0;
  return bytes;
}

}  // namespace

EmulatedDevices& emulated_devices() {
  static EmulatedDevices devices;
  return devices;
}

struct Stream {
  int device;
  double seconds = 0;
};

std::string unavailable() { return emulated_devices().unavailable; }
int device_count() { return unavailable().empty() ? emulated_devices().count : 0; }

DeviceInfo info(int device) {
  return {
      "emulated " + std::to_string(device), "host", 1, 1e9, emulated_devices().shared_bytes, emulated_devices().memory};
}

Memory memory(int device) {
  const std::lock_guard lock(mutex);
  const std::size_t total = emulated_devices().memory, taken = used(device);
  return {total > taken ? total - taken : 0, total};
}

void* allocate(int device, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  void* const memory = ::operator new(bytes, kAlignment);
  std::memset(memory, emulation::settings().pattern, bytes);
  allocated[memory] = {device, bytes};
  return memory;
}

void release(int, void* memory) noexcept {
  const std::lock_guard lock(mutex);
  if (allocated.erase(memory) == 0) {
    ++emulated_devices().released_unknown;
  } else {
    ::operator delete(memory, kAlignment);
  }
}

void* allocate_pinned(int, std::size_t bytes) { return ::operator new(bytes, kAlignment); }
void release_pinned(int, void* memory) noexcept { ::operator delete(memory, kAlignment); }

Stream* make_stream(int device) {
  const std::lock_guard lock(mutex);
  ++streams[device];
  return new Stream{device};
}
void release(Stream* stream) noexcept {
  const std::lock_guard lock(mutex);
  --streams[stream->device];
  delete stream;
}

struct Graph {
  std::vector<Step> steps;
};

namespace {

void launch(Stream* stream, const Step& step) {
  EmulatedDevices& devices = emulated_devices();
  ++devices.launches;
  if (!devices.failure.empty()) {
    throw DeviceError("CUDA device " + std::to_string(stream->device) + ", kernel " + step.kernel->name + ": " +
                      std::exchange(devices.failure, {}));
  }
  const auto begin = std::chrono::steady_clock::now();
  emulation::run(step.kernel->name, reinterpret_cast<void (*)(const void*)>(const_cast<void*>(step.kernel->entry)),
                 step.args.data(), step.shape.blocks, step.shape.threads, step.shape.shared_bytes);
  stream->seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

void enqueue(Stream* stream, std::span<const Step> steps) {
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::launch) {
      launch(stream, step);
    } else {
      std::memcpy(step.to, step.from, step.bytes);
    }
  }
}

Graph* make_graph(Stream*, std::span<const Step> steps) { return new Graph{{steps.begin(), steps.end()}}; }

void replay(Stream* stream, Graph* graph, std::span<const Step> steps) {
  const auto same = [](const Step& a, const Step& b) { return a.kind == b.kind && a.kernel == b.kernel; };
  if (!std::ranges::equal(graph->steps, steps, same)) {
    throw std::logic_error("a graph was replayed with steps of other kinds or kernels");
  }
  ++emulated_devices().replays;
  enqueue(stream, steps);
}

void release(Graph* graph) noexcept { delete graph; }

double wait(Stream* stream) { return std::exchange(stream->seconds, 0); }
void settle(int) {}
int device_of(const void* memory) {
  const std::lock_guard lock(mutex);
  for (const auto& [begin, held] : allocated) {
    const auto* const first = static_cast<const std::byte*>(begin);
    if (memory >= first && memory < first + held.second) return held.first;
  }
  return emulated_devices().of_others;
}
bool lost(int) noexcept { return true; }
void reset(int device) noexcept {
  const std::lock_guard lock(mutex);
  emulated_devices().held_at_reset += streams[device];
  std::erase_if(allocated, [device](const auto& entry) {
    if (entry.second.first != device) return false;
    ::operator delete(entry.first, kAlignment);
    return true;
  });
}

}  // namespace isinglass::cuda::driver
