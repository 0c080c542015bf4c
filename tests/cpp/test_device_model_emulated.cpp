// Kernel logic tests of models whose matrix lies on a device: measured, packed and evaluated as on the host.
#include <bit>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "device_model.hpp"
#include "emulated.hpp"
#include "isinglass/random.hpp"
#include "isinglass/schedule.hpp"
#include "large_walks.hpp"

namespace isinglass::cuda {
namespace {

constexpr double kOffset = 0.5;

template <class T>
std::vector<T> integers(std::size_t n, std::int64_t largest, std::int64_t factor) {
  std::vector<T> entries(n * n);
  for (std::size_t k = 0; k < entries.size(); ++k) {
    const auto bits = random_bits(n, 3, 0, static_cast<std::uint32_t>(k));
    entries[k] = static_cast<T>(factor * (static_cast<std::int64_t>(bits) % (2 * largest + 1) - largest));
  }
  return entries;
}

std::vector<std::uint8_t> some_states(std::size_t n, std::size_t reads) {
  std::vector<std::uint8_t> states(n * reads);
  for (std::size_t k = 0; k < states.size(); ++k)
    states[k] = random_bits(5, n, 0, static_cast<std::uint32_t>(k)) >> 31 != 0;
  return states;
}

/// All that is known of an image: its rows last.
std::vector<std::uint64_t> bits_of(const Qubo& qubo, const std::vector<std::int32_t>& rows) {
  std::vector<std::uint64_t> bits{std::bit_cast<std::uint64_t>(qubo.scale()),
                                  static_cast<std::uint64_t>(qubo.worst_field()),
                                  static_cast<std::uint64_t>(qubo.largest_coupling()), qubo.num_couplings(),
                                  static_cast<std::uint64_t>(qubo.exact())};
  for (double share : {0.0, 0.3, 0.9, 1.0}) bits.push_back(std::bit_cast<std::uint64_t>(qubo.typical_cost(share)));
  for (double bias : qubo.view().linear) bits.push_back(std::bit_cast<std::uint64_t>(bias));
  for (std::int32_t bias : qubo.linear()) bits.push_back(static_cast<std::uint64_t>(bias));
  for (std::int32_t coupling : rows) bits.push_back(static_cast<std::uint64_t>(coupling));
  return bits;
}

template <class Row>
std::vector<std::int32_t> widened(const DeviceRows& rows, std::size_t n) {
  const Row* const first = rows.memory.as<Row>();
  return {first, first + n * rows.stride};
}

/// The image of a matrix on the device, memory of an emulated one being the host's, and energies of states by it.
template <class T>
std::vector<std::uint64_t> there(const std::vector<T>& entries, std::size_t n) {
  std::vector<double> linear;
  const std::unique_ptr<Qubo> qubo =
      device_model({entries.data(), static_cast<std::uint32_t>(n), sizeof(T)}, kOffset, 0, linear);
  const DeviceRows& rows = *device_rows(*qubo);
  std::vector<std::uint64_t> bits = bits_of(*qubo, rows.bytes == 1   ? widened<std::int8_t>(rows, n)
                                                   : rows.bytes == 2 ? widened<std::int16_t>(rows, n)
                                                                     : widened<std::int32_t>(rows, n));
  const std::vector<std::uint8_t> states = some_states(n, 3);
  std::vector<double> energy(3);
  energies_of(*qubo, states.data(), 3, 2, energy.data());
  for (double e : energy) bits.push_back(std::bit_cast<std::uint64_t>(e));
  return bits;
}

/// The same of a copy on the host.
template <class T>
std::vector<std::uint64_t> here(const std::vector<T>& entries, std::size_t n) {
  std::vector<double> linear(n), upper(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    linear[i] = static_cast<double>(entries[i * n + i]);
    for (std::size_t j = i + 1; j < n; ++j) {
      upper[i * n + j] = static_cast<double>(entries[i * n + j]) + static_cast<double>(entries[j * n + i]);
    }
  }
  QuboView view;
  view.n = n;
  view.linear = linear;
  view.dense = upper.data();
  view.offset = kOffset;
  const Qubo qubo(view, std::nullopt);
  std::vector<std::uint64_t> bits = bits_of(qubo, qubo.rows32().values);
  const std::vector<std::uint8_t> states = some_states(n, 3);
  std::vector<double> energy(3);
  energies(view, states.data(), 3, energy.data());
  for (double e : energy) bits.push_back(std::bit_cast<std::uint64_t>(e));
  return bits;
}

template <class T>
bool equal(std::size_t n, std::int64_t largest, std::int64_t factor = 1) {
  const std::vector<T> entries = integers<T>(n, largest, factor);
  return there(entries, n) == here(entries, n);
}

}  // namespace

TEST(emulated_device_model_equals_that_of_a_copy) {
  for (std::size_t n : {1U, 2U, 31U, 33U, 65U, 130U}) {
    CHECK(equal<std::int8_t>(n, 60));
    CHECK(equal<std::int8_t>(n, 127));
    CHECK(equal<std::int8_t>(n, 0));
    CHECK(equal<std::int16_t>(n, 300));
    CHECK(equal<std::int16_t>(n, 30, 1000));
    CHECK(equal<std::int32_t>(n, 1'000'000));
    CHECK(equal<std::int32_t>(n, 9, 7'000'000));
  }
}

TEST(emulated_device_model_in_any_order) {
  check_in_any_order([] { return equal<std::int16_t>(70, 300); }, true);
}

TEST(emulated_device_model_needs_every_barrier) {
  CHECK(check_every_barrier([] { return equal<std::int16_t>(70, 300); }, true) == 4);
}

TEST(emulated_device_model_is_refused_beyond_what_is_exact) {
  std::vector<double> linear;
  std::vector<std::int32_t> entries(40 * 40, 1 << 30);
  entries[0] = 1;
  CHECK_THROWS(device_model({entries.data(), 40, 4}, 0, 0, linear), std::invalid_argument);
}

TEST(emulated_couplings_elsewhere_are_not_looked_for_here) {
  const std::vector<std::int8_t> entries = integers<std::int8_t>(40, 9, 1);
  std::vector<double> linear;
  const std::unique_ptr<Qubo> qubo = device_model({entries.data(), 40, 1}, 0, 0, linear);
  const std::vector<std::uint8_t> state(40, 1);
  double energy = 0;
  CHECK_THROWS(qubo->rows8(), std::logic_error);
  CHECK_THROWS(qubo->sparse_rows(), std::logic_error);
  CHECK_THROWS(energies(qubo->view(), state.data(), 1, &energy), std::logic_error);
}

TEST(emulated_probe_equals_the_cpu) {
  for (std::size_t n : {20U, 70U}) {
    const std::vector<std::int16_t> entries = integers<std::int16_t>(n, 300, 1);
    std::vector<double> linear, upper(n * n);
    const std::unique_ptr<Qubo> qubo = device_model({entries.data(), static_cast<std::uint32_t>(n), 2}, 0, 0, linear);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i + 1; j < n; ++j) upper[i * n + j] = entries[i * n + j] + entries[j * n + i];
    }
    QuboView view;
    view.n = n;
    view.linear = linear;
    view.dense = upper.data();
    const Window wanted = probe_window(Qubo(view, std::nullopt));
    const auto is_same = [&] {
      const Window found = large_probe(*qubo, 0);
      return found.hot == wanted.hot && found.cold == wanted.cold;
    };
    CHECK(is_same());
    check_in_any_order(is_same, true);
  }
}

}  // namespace isinglass::cuda
