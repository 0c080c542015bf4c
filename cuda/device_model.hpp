// A model whose couplings lie on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "device_memory.hpp"
#include "fold_kernels.hpp"
#include "isinglass/qubo.hpp"

namespace isinglass::cuda {

/// Its rows there, as the kernels of a large dense model read them.
struct DeviceRows final : Elsewhere {
  DeviceRows(int device, std::size_t n, std::size_t stride_in, std::uint32_t bytes_in, std::int64_t granule_in)
      : memory(device, n * stride_in * bytes_in), stride(stride_in), bytes(bytes_in), granule(granule_in) {}

  DeviceMemory memory;
  std::size_t stride;
  std::uint32_t bytes;   // of a coupling
  std::int64_t granule;  // of the caller's coefficients: a coupling is so many of it
};

/// Entries of a row, a multiple of every block width.
constexpr std::size_t stride_of(std::size_t n) { return (n + 63) / 64 * 64; }
/// Bytes of an integer of them.
constexpr std::uint32_t bytes_of_rows(std::int64_t largest_coupling) {
  return largest_coupling <= std::numeric_limits<std::int8_t>::max()    ? 1
         : largest_coupling <= std::numeric_limits<std::int16_t>::max() ? 2
                                                                        : 4;
}
/// The rows of a model that has them there, or nullptr.
inline const DeviceRows* device_rows(const Qubo& qubo) { return dynamic_cast<const DeviceRows*>(qubo.elsewhere()); }

/// The model of a matrix on `device`, the same integers as from a copy on the host; `matrix` is not needed afterwards,
/// `linear` is its diagonal and must outlive the model. Throws std::invalid_argument where the integers leave what a
/// search holds or float64 adds exactly.
std::unique_ptr<Qubo> device_model(const IntegerMatrix& matrix, double offset, int device, std::vector<double>& linear);

/// isinglass::energies wherever the couplings of the model lie: the same bits.
void energies_of(const Qubo& qubo, const std::uint8_t* states, std::size_t reads, int threads, double* out);

}  // namespace isinglass::cuda
