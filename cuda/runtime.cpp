#include "runtime.hpp"

#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace isinglass::cuda {

void check_device(int device) {
  if (const std::string reason = driver::unavailable(); !reason.empty()) throw DeviceError(reason);
  if (device < 0 || device >= driver::device_count()) {
    throw std::invalid_argument("device must be in 0.." + std::to_string(driver::device_count() - 1) + ", got " +
                                std::to_string(device));
  }
}

namespace {

std::mutex mutex;
std::atomic<double> seconds_of_kernels{0};
std::atomic<bool> graphs_wanted{true};

/// What this process holds of a device.
struct Held {
  std::size_t leases = 0;
  bool lost = false;  // and not yet reset
  std::size_t resets = 0;
};

/// By device. It outlives static destruction, as what is parked does.
Held& held(int device) {
  static auto* const by_device = new std::map<int, Held>;
  return (*by_device)[device];
}

}  // namespace

/// What batches borrow. It grows, and is given back when another batch needs the memory.
struct Lease {
  explicit Lease(int device_in)
      : device(device_in), info(driver::info(device_in)), stream(driver::make_stream(device)) {
    const std::lock_guard lock(mutex);
    ++held(device).leases;
  }
  ~Lease() {
    drop();
    for (const Pattern& pattern : patterns) {
      if (pattern.graph != nullptr) driver::release(pattern.graph);
    }
    driver::release(stream);
    const std::lock_guard lock(mutex);
    --held(device).leases;
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  void drop() {
    if (memory != nullptr) driver::release(device, memory);
    if (pinned != nullptr) driver::release_pinned(device, pinned);
    memory = pinned = nullptr;
    memory_bytes = pinned_bytes = 0;
  }

  /// Steps like those of last time are made into a graph, and replayed from then on.
  void begin(std::span<const driver::Step> steps);

  /// What steps must share to be replayed by one graph.
  struct Pattern {
    std::vector<std::pair<driver::Step::Kind, const Kernel*>> steps;
    driver::Graph* graph = nullptr;
  };

  int device;
  DeviceInfo info;
  driver::Stream* stream;
  std::vector<Pattern> patterns;  // the latest last
  void* memory = nullptr;
  std::size_t memory_bytes = 0;
  void* pinned = nullptr;
  std::size_t pinned_bytes = 0;
};

namespace {

/// Leases that no batch holds. They outlive static destruction, when the CUDA runtime may be gone.
std::vector<Lease*>& parked() {
  static auto* const leases = new std::vector<Lease*>;
  return *leases;
}

Lease* take(int device) {
  const std::lock_guard lock(mutex);
  const auto found =
      std::find_if(parked().begin(), parked().end(), [&](Lease* lease) { return lease->device == device; });
  if (found == parked().end()) return nullptr;
  Lease* const lease = *found;
  parked().erase(found);
  return lease;
}

/// Gives back the memory that no batch holds.
void drop_parked(int device) {
  const std::lock_guard lock(mutex);
  for (Lease* lease : parked()) {
    if (lease->device == device) lease->drop();
  }
}

/// Gives back what a lost device holds, and resets it with the last of it: other batches may still be under way there.
void give_up(int device) {
  while (Lease* const gone = take(device)) delete gone;
  const std::lock_guard lock(mutex);
  if (!held(device).lost || held(device).leases > 0) return;
  held(device).lost = false;
  ++held(device).resets;
  driver::reset(device);
}

}  // namespace

void Lease::begin(std::span<const driver::Step> steps) {
  constexpr std::size_t kMostPatterns = 8;
  if (steps.size() < 2 || !graphs_wanted) {
    driver::enqueue(stream, steps);
    return;
  }
  Pattern pattern;
  for (const driver::Step& step : steps) pattern.steps.emplace_back(step.kind, step.kernel);
  const auto known = std::ranges::find(patterns, pattern.steps, &Pattern::steps);
  if (known == patterns.end()) {
    driver::enqueue(stream, steps);
    if (patterns.size() == kMostPatterns) {
      if (patterns.front().graph != nullptr) driver::release(patterns.front().graph);
      patterns.erase(patterns.begin());
    }
    patterns.push_back(std::move(pattern));
    return;
  }
  std::rotate(known, known + 1, patterns.end());
  Pattern& latest = patterns.back();
  if (latest.graph == nullptr) latest.graph = driver::make_graph(stream, steps);
  driver::replay(stream, latest.graph, steps);
}

Batch::Batch(int device) : exceptions_(std::uncaught_exceptions()) {
  check_device(device);
  lease_ = take(device);
  if (lease_ == nullptr) lease_ = new Lease(device);
}

Batch::~Batch() {
  const int device = lease_->device;
  const bool failed = failed_ || std::uncaught_exceptions() > exceptions_;
  {
    const std::lock_guard lock(mutex);
    if (!failed && !held(device).lost) {
      parked().push_back(lease_);
      return;
    }
  }
  // Work may still be under way in what this batch holds, and after a failure the device may be lost.
  delete lease_;
  if (failed && driver::lost(device)) {
    const std::lock_guard lock(mutex);
    held(device).lost = true;
  }
  give_up(device);
}

const DeviceInfo& Batch::info() const { return lease_->info; }

void Batch::allocate() {
  const std::size_t moved = inputs_.bytes + in_outs_.bytes + outputs_.bytes, needed = moved + scratch_.bytes;
  if (needed > lease_->memory_bytes) {
    if (lease_->memory != nullptr) driver::release(lease_->device, std::exchange(lease_->memory, nullptr));
    lease_->memory_bytes = 0;
    make_room(lease_->device, needed);
    lease_->memory = driver::allocate(lease_->device, needed);
    lease_->memory_bytes = needed;
  }
  if (moved > lease_->pinned_bytes) {
    if (lease_->pinned != nullptr) driver::release_pinned(lease_->device, std::exchange(lease_->pinned, nullptr));
    lease_->pinned_bytes = 0;
    lease_->pinned = driver::allocate_pinned(lease_->device, moved);
    lease_->pinned_bytes = moved;
  }
  device_ = static_cast<std::byte*>(lease_->memory);
  host_ = static_cast<std::byte*>(lease_->pinned);
}

void Batch::add(driver::Step step) {
  constexpr std::size_t kMostSteps = 64;
  steps_.push_back(std::move(step));
  if (steps_.size() == kMostSteps) begin_steps();
}

/// Whoever catches an error may destroy the batch later, when none is under way.
template <class Action>
void Batch::watch(Action action) {
  failed_ = true;
  action();
  failed_ = false;
}

void Batch::begin_steps() {
  const std::vector<driver::Step> steps = std::exchange(steps_, {});
  if (!steps.empty()) watch([&] { lease_->begin(steps); });
}

void Batch::upload() {
  const std::size_t bytes = inputs_.bytes + in_outs_.bytes;
  if (bytes > 0) add({.kind = driver::Step::Kind::upload, .to = device_, .from = host_, .bytes = bytes});
}

void Batch::download() {
  const std::size_t bytes = in_outs_.bytes + outputs_.bytes;
  if (bytes > 0) {
    add({.kind = driver::Step::Kind::download,
         .to = host_ + inputs_.bytes,
         .from = device_ + inputs_.bytes,
         .bytes = bytes});
  }
  begin_steps();
}

void Batch::fetch(void* to, const void* from, std::size_t bytes) {
  copy({.kind = driver::Step::Kind::download, .to = to, .from = from, .bytes = bytes});
}

void Batch::send(void* to, const void* from, std::size_t bytes) {
  copy({.kind = driver::Step::Kind::upload, .to = to, .from = from, .bytes = bytes});
}

/// Not a step of a graph: whose memory the ends are may change from call to call.
void Batch::copy(const driver::Step& step) {
  if (step.bytes == 0) return;
  begin_steps();
  watch([&] { driver::enqueue(lease_->stream, {&step, 1}); });
}

void Batch::launch_bytes(const Kernel& kernel, const Shape& shape, std::span<const std::byte> args) {
  if (shape.blocks == 0) return;
  if (shape.threads == 0 || shape.threads % 32 != 0 || shape.threads > kernel.most_threads) {
    throw std::logic_error("kernel " + std::string(kernel.name) + " takes blocks of a multiple of 32 threads, up to " +
                           std::to_string(kernel.most_threads) + ", got " + std::to_string(shape.threads));
  }
  if (shape.shared_bytes > lease_->info.shared_bytes) {
    throw std::logic_error("kernel " + std::string(kernel.name) + " has " + std::to_string(lease_->info.shared_bytes) +
                           " bytes of shared memory, got a demand of " + std::to_string(shape.shared_bytes));
  }
  add({.kind = driver::Step::Kind::launch, .kernel = &kernel, .shape = shape, .args = {args.begin(), args.end()}});
}

void Batch::wait() {
  begin_steps();
  watch([&] { seconds_of_kernels += driver::wait(lease_->stream); });
}

void make_room(int device, std::size_t bytes) {
  if (bytes > driver::memory(device).free) drop_parked(device);
  if (const std::size_t free = driver::memory(device).free; bytes > free) {
    throw OutOfDeviceMemory("CUDA device " + std::to_string(device) + " needs " + std::to_string(bytes) +
                            " bytes, has " + std::to_string(free) + " free");
  }
}

std::size_t resets(int device) {
  const std::lock_guard lock(mutex);
  return held(device).resets;
}

void use_graphs(bool wanted) { graphs_wanted = wanted; }

double kernel_seconds() { return seconds_of_kernels; }

}  // namespace isinglass::cuda
