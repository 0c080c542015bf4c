// What batches are written with: memory that lies the same way on both sides, launches, and stops between them. The
// same code over the CUDA runtime and over the emulation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "driver.hpp"
#include "isinglass/control.hpp"

namespace isinglass::cuda {

/// Refuses a device that is not there, by its number. Throws std::invalid_argument, or DeviceError without any device.
void check_device(int device);

/// Sees to it that so many bytes are free on a device, for which memory that no batch holds is given back. Throws
/// OutOfDeviceMemory, with the bytes needed and free.
void make_room(int device, std::size_t bytes);

/// How often a device was lost and reset: nothing of before is there, or may be released.
std::size_t resets(int device);

/// Seconds that kernels of this process have run on devices, of batches that were waited for.
double kernel_seconds();

/// Whether what a batch does again (the same copies and kernels in the same order, whatever their sizes) is replayed as
/// a graph from then on. It is unless told otherwise; answers do not depend on it.
void use_graphs(bool wanted);

/// Where an array of a batch lies, in bytes.
template <class T>
struct Array {
  std::size_t offset = 0;
  std::size_t count = 0;
};

struct Lease;

/// One batch on one device: a stream, device memory and pinned host memory, borrowed from a pool and given back at the
/// end, so that a second batch of the same shape allocates nothing. Declare every array, then `allocate`, fill the
/// inputs through `host`, `upload`, `launch`, `download`, `wait`, read the outputs.
class Batch {
 public:
  explicit Batch(int device);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Copied to the device by `upload`.
  template <class T>
  Array<T> input(std::size_t count) {
    return add<T>(inputs_, count);
  }
  /// Copied both ways.
  template <class T>
  Array<T> in_out(std::size_t count) {
    return add<T>(in_outs_, count);
  }
  /// Copied from the device by `download`.
  template <class T>
  Array<T> output(std::size_t count) {
    return add<T>(outputs_, count);
  }
  /// On the device alone.
  template <class T>
  Array<T> scratch(std::size_t count) {
    return add<T>(scratch_, count);
  }

  /// Throws OutOfDeviceMemory, with the bytes needed and free.
  void allocate();

  template <class T>
  std::span<T> host(Array<T> array) const {
    return {reinterpret_cast<T*>(host_ + base(array.offset) + offset(array.offset)), array.count};
  }
  template <class T>
  T* device(Array<T> array) const {
    return reinterpret_cast<T*>(device_ + base(array.offset) + offset(array.offset));
  }

  void upload();
  /// Checks the block size against the kernel's bound and shared memory against the device's.
  template <class Args>
  void launch(const Kernel& kernel, const Shape& shape, const Args& args) {
    launch_bytes(kernel, shape, std::as_bytes(std::span(&args, 1)));
  }
  /// The device begins what was asked of it here at the latest: uploads and launches are gathered until then.
  void download();
  /// From memory of others on this device, and to it.
  void fetch(void* to, const void* from, std::size_t bytes);
  void send(void* to, const void* from, std::size_t bytes);
  void wait();

  const DeviceInfo& info() const;

 private:
  // An array's offset holds its section in the two highest bits.
  static constexpr int kSectionBits = 62;
  struct Section {
    std::size_t tag;
    std::size_t bytes = 0;
  };
  template <class T>
  Array<T> add(Section& section, std::size_t count) {
    const std::size_t at = section.bytes;
    section.bytes = padded(at + count * sizeof(T));
    return {at | section.tag << kSectionBits, count};
  }
  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  static std::size_t offset(std::size_t tagged) { return tagged & ((std::size_t{1} << kSectionBits) - 1); }
  std::size_t base(std::size_t tagged) const {
    const std::size_t tag = tagged >> kSectionBits;
    return (tag > 0 ? inputs_.bytes : 0) + (tag > 1 ? in_outs_.bytes : 0) + (tag > 2 ? outputs_.bytes : 0);
  }
  void launch_bytes(const Kernel& kernel, const Shape& shape, std::span<const std::byte> args);
  void add(driver::Step step);
  void begin_steps();
  void copy(const driver::Step& step);
  template <class Action>
  void watch(Action action);

  Lease* lease_;
  Section inputs_{0}, in_outs_{1}, outputs_{2}, scratch_{3};
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
  std::vector<driver::Step> steps_;  // asked for, not begun
  int exceptions_;
  bool failed_ = false;
};

/// How many steps come to about 20 ms, after so many took so long.
inline std::uint64_t next_slice(std::uint64_t steps, double seconds) {
  constexpr double kAim = 0.02, kGrowth = 4;
  const double pace = kAim / std::max(seconds, kAim / kGrowth);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(steps) * pace));
}

/// launch(first, count) for steps [0, total), in slices that end within about 50 ms each, with a look at the control
/// after each: `guess` is the first slice, from then on what the last one took decides. A whole that fits the guess is
/// launched at once and not waited for. Returns the steps that were launched: fewer only if the control stopped.
template <class Launch>
std::uint64_t in_slices(Batch& batch, std::uint64_t total, std::uint64_t guess, Control& control, Launch launch) {
  std::uint64_t done = 0, slice = std::max<std::uint64_t>(1, guess);
  while (done < total) {
    const std::uint64_t count = std::min(slice, total - done);
    const double begin = control.seconds();
    launch(done, count);
    done += count;
    if (done == total) break;
    batch.wait();
    if (control.stop()) break;
    slice = next_slice(count, control.seconds() - begin);
  }
  return done;
}

/// launch(first, count, end) for sweeps [0, total) in slices, `end` with the last; where the control stops before that,
/// and at once if it has `stopped`, a launch of none ends them. Returns why not all sweeps were launched.
template <class Launch>
StopReason in_sweeps(Batch& batch, std::uint64_t total, bool stopped, std::uint64_t guess, Control& control,
                     Launch launch) {
  std::uint64_t swept = 0;
  if (!stopped) {
    swept = in_slices(batch, total, guess, control,
                      [&](std::uint64_t first, std::uint64_t count) { launch(first, count, first + count == total); });
  }
  if (swept < total || total == 0) launch(swept, 0, true);
  return swept < total ? control.reason() : StopReason::none;
}

/// The same for work whose end only the device knows: launch(steps) waits, and returns true once all is done. False if
/// the control stopped before that.
template <class Launch>
bool until_done(std::uint64_t guess, Control& control, Launch launch) {
  std::uint64_t slice = std::max<std::uint64_t>(1, guess);
  for (;;) {
    const double begin = control.seconds();
    if (launch(slice)) return true;
    if (control.stop()) return false;
    slice = next_slice(slice, control.seconds() - begin);
  }
}

}  // namespace isinglass::cuda
