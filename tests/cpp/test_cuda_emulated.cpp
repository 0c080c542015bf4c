// Kernel logic tests: host emulation itself, and kernels on it. No GPU takes part.
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "check.hpp"
#include "driver_emulated.hpp"
#include "emulated.hpp"
#include "isinglass/control.hpp"
#include "kernel.hpp"
#include "runtime.hpp"

namespace isinglass::cuda {
namespace {

struct SumArgs {
  const std::int32_t* values;
  std::uint64_t* sums;  // one a block
  unsigned count;       // values of a block
};

/// Sums through shared memory: every thread leaves its part, the first warp adds them.
ISINGLASS_KERNEL(block_sums, SumArgs, 256) {
  auto* const parts = shared_arena<std::uint64_t>();
  const std::int32_t* const values = args.values + block_index() * args.count;
  std::uint64_t part = 0;
  for (unsigned k = thread_index(); k < args.count; k += block_size()) part += static_cast<std::uint64_t>(values[k]);
  parts[thread_index()] = part;
  sync_block();
  if (warp_index() > 0) return;
  part = 0;
  for (unsigned k = lane_index(); k < block_size(); k += kWarp) part += parts[k];
  part = warp_sum(part);
  if (lane_index() == 0) args.sums[block_index()] = part;
}

struct NoArgs {};

ISINGLASS_KERNEL(divergent_barrier, NoArgs, 64) {
  if (thread_index() < 40) {
    sync_block();
  } else {
    sync_block();
  }
}

ISINGLASS_KERNEL(missing_lane, NoArgs, 64) {
  if (thread_index() == 33) return;
  sync_warp();
}

ISINGLASS_KERNEL(reads_before_it_writes, SumArgs, 64) {
  if (thread_index() == 0) args.sums[block_index()] = *shared_arena<std::uint64_t>();
}

struct StepArgs {
  std::uint32_t* value;
  std::uint32_t factor, summand;
};

ISINGLASS_KERNEL(times_and_plus, StepArgs, 32) {
  if (thread_index() == 0) *args.value = *args.value * args.factor + args.summand;
}

std::vector<std::uint64_t> sums(unsigned blocks, unsigned threads, unsigned count) {
  Batch batch(0);
  const auto values = batch.input<std::int32_t>(blocks * count);
  const auto found = batch.output<std::uint64_t>(blocks);
  batch.allocate();
  std::iota(batch.host(values).begin(), batch.host(values).end(), -7);
  batch.upload();
  batch.launch(block_sums, {blocks, threads, threads * sizeof(std::uint64_t)},
               SumArgs{batch.device(values), batch.device(found), count});
  batch.download();
  batch.wait();
  return {batch.host(found).begin(), batch.host(found).end()};
}

std::vector<std::uint64_t> expected_sums(unsigned blocks, unsigned count) {
  std::vector<std::uint64_t> found;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * count - 7;
    found.push_back(static_cast<std::uint64_t>(count * first + std::int64_t{count} * (count - 1) / 2));
  }
  return found;
}

template <class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST(emulated_kernel_in_any_order) {
  for (unsigned threads : {32U, 64U, 256U}) {
    for (unsigned count : {1U, 31U, 100U, 257U}) {
      check_in_any_order([&] { return sums(3, threads, count); }, expected_sums(3, count));
    }
  }
}

TEST(emulated_kernel_without_its_barrier_is_found_out) {
  CHECK(check_every_barrier([] { return sums(1, 64, 64); }, expected_sums(1, 64)) == 1);
}

TEST(emulation_names_mistakes_of_kernels) {
  for (int repeat = 0; repeat < 2; ++repeat) {  // threads that were given up begin afresh
    const auto message_of_launch = [](const Kernel& kernel) {
      return message_of([&] {
        Batch batch(0);
        batch.launch(kernel, {1, 64}, NoArgs{});
        batch.wait();
      });
    };
    const std::string divergent = message_of_launch(divergent_barrier);
    CHECK(holds(divergent, "barriers in divergent code") && holds(divergent, "40 at sync_block"));
    const std::string missing = message_of_launch(missing_lane);
    CHECK(holds(missing, "deadlock") && holds(missing, "31 at warp operation") && holds(missing, "33 at the end"));
    CHECK(sums(2, 64, 100) == expected_sums(2, 100));
  }
  CHECK(holds(message_of([] { Batch(0).launch(divergent_barrier, {1, 96}, NoArgs{}); }), "up to 64, got 96"));
  CHECK(holds(message_of([] { Batch(0).launch(divergent_barrier, {1, 33}, NoArgs{}); }), "multiple of 32"));
  emulation::take_barriers();  // those that are mistakes are forgotten
}

TEST(emulated_memory_holds_a_pattern) {
  const auto first = [](unsigned char pattern) {
    const Emulated settings({.pattern = pattern});
    Batch batch(0);
    const auto found = batch.output<std::uint64_t>(1);
    batch.allocate();
    batch.launch(reads_before_it_writes, {1, 32, 64}, SumArgs{nullptr, batch.device(found), 0});
    batch.download();
    return batch.host(found)[0];
  };
  CHECK(first(0x11) != first(0x22));
}

TEST(emulated_device_out_of_memory_and_failures) {
  driver::EmulatedDevices& devices = driver::emulated_devices();
  devices.memory = 1 << 20;
  const std::string message = message_of([] {
    Batch batch(1);
    batch.scratch<char>(2 << 20);
    batch.allocate();
  });
  devices.memory = std::size_t{1} << 30;
  CHECK(holds(message, "CUDA device 1 needs 2097152 bytes, has ") && holds(message, " free"));
  devices.failure = "cudaErrorDeviceLost";
  CHECK(holds(message_of([] { sums(1, 32, 5); }), "CUDA device 0, kernel block_sums: cudaErrorDeviceLost"));
  CHECK(sums(1, 32, 5) == expected_sums(1, 5));
  CHECK_THROWS(Batch(7), std::invalid_argument);
  devices.unavailable = "no CUDA driver is installed";
  CHECK(message_of([] { Batch batch(0); }) == "no CUDA driver is installed");
  devices.unavailable.clear();
}

TEST(emulated_steps_that_come_again_are_replayed) {
  const std::size_t& replays = driver::emulated_devices().replays;
  CHECK(sums(2, 32, 40) == expected_sums(2, 40));
  const std::size_t before = replays;
  CHECK(sums(3, 64, 50) == expected_sums(3, 50));  // the same steps with other sizes
  CHECK(sums(1, 32, 7) == expected_sums(1, 7));
  CHECK(replays == before + 2);
  use_graphs(false);
  CHECK(sums(1, 32, 7) == expected_sums(1, 7));
  use_graphs(true);
  CHECK(replays == before + 2);
  driver::emulated_devices().failure = "cudaErrorIllegalAddress";
  CHECK(holds(message_of([] { sums(1, 32, 7); }), "kernel block_sums: cudaErrorIllegalAddress"));
  CHECK(sums(1, 32, 7) == expected_sums(1, 7));
}

TEST(emulated_steps_of_a_long_chain_keep_their_order) {
  constexpr unsigned kLaunches = 200;  // more than a batch gathers before the device begins
  for (int repeat = 0; repeat < 2; ++repeat) {
    Batch batch(0);
    const auto values = batch.in_out<std::uint32_t>(1);
    batch.allocate();
    batch.host(values)[0] = 1;
    batch.upload();
    std::uint32_t expected = 1;
    for (unsigned k = 0; k < kLaunches; ++k) {
      batch.launch(times_and_plus, {1, 32}, StepArgs{batch.device(values), 3, k});
      expected = expected * 3 + k;
    }
    batch.download();
    batch.wait();
    CHECK(batch.host(values)[0] == expected);
  }
}

TEST(emulated_memory_that_no_batch_holds_is_given_back) {
  driver::EmulatedDevices& devices = driver::emulated_devices();
  const std::size_t total = std::exchange(devices.memory, std::size_t{1} << 20);
  const auto allocate = [](Batch& batch, std::size_t bytes) {
    batch.scratch<char>(bytes);
    batch.allocate();
  };
  {
    Batch large(1), small(1);
    allocate(large, 600'000);
    allocate(small, 1000);
  }
  Batch one(1);  // borrows what the small one left
  allocate(one, 500'000);
  CHECK(holds(message_of([&] {
                Batch other(1);
                allocate(other, 600'000);
              }),
              "CUDA device 1 needs 600064 bytes, has "));
  devices.memory = total;
}

TEST(emulated_slices_stop_at_the_control) {
  Batch batch(0);
  Control free(std::numeric_limits<double>::infinity());
  std::vector<std::uint64_t> slices;
  const auto note = [&](std::uint64_t first, std::uint64_t count) {
    CHECK(first == std::accumulate(slices.begin(), slices.end(), std::uint64_t{0}));
    slices.push_back(count);
  };
  CHECK(in_slices(batch, 1000, 10, free, note) == 1000);
  CHECK(slices.at(0) == 10 && slices.at(1) == 40);
  slices.clear();
  Control over(0);
  CHECK(in_slices(batch, 1000, 10, over, note) == 10);
  slices.clear();
  CHECK(in_slices(batch, 7, 10, over, note) == 7);
}

}  // namespace isinglass::cuda
