// Many small models on the device: whole rows of couplings in the strided form of WarpCosts, a shape of kernel for
// each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "isinglass/qubo.hpp"
#include "runtime.hpp"

namespace isinglass::cuda {

inline constexpr std::size_t kMostSmall = 256;  // variables

/// What a kernel of small models is compiled for.
struct SmallShape {
  unsigned row_bytes;  // of a coupling: 1, 2 or 4
  unsigned slots;      // variables of a lane

  std::size_t stride() const { return std::size_t{32} * slots; }
  friend auto operator<=>(const SmallShape&, const SmallShape&) = default;
};
inline constexpr std::array<unsigned, 4> kSlots{2, 4, 5, 8};
inline constexpr std::array<unsigned, 3> kRowBytes{1, 2, 4};

SmallShape shape_of(const Qubo& qubo);
/// Place of a shape in a table of kernels, by the bytes of a coupling, then the slots.
std::size_t index_of(const SmallShape& shape);

/// A model as a kernel sees it.
struct SmallModel {
  const void* rows;
  const std::int32_t* linear;
  std::uint32_t n;
  std::int32_t largest_coupling;
};

/// Couplings of 32 bits stay in device memory: 256 rows of them are more than a block's shared memory.
template <class Row>
inline constexpr bool kRowsInShared = sizeof(Row) < 4;

/// The models of a batch: declare with the constructor, then, after `allocate`, `fill`.
class SmallModels {
 public:
  SmallModels(Batch& batch, std::vector<const Qubo*> qubos);

  void fill(int threads);
  const SmallModel* device() const { return batch_.device(models_); }
  const SmallShape& shape(std::size_t model) const { return shapes_[model]; }
  /// Shared memory for the rows of any of these models, all of one shape.
  std::size_t shared_bytes(std::span<const std::size_t> models) const;
  /// Models by shape.
  const std::map<SmallShape, std::vector<std::size_t>>& groups() const { return groups_; }

 private:
  Batch& batch_;
  std::vector<const Qubo*> qubos_;
  std::vector<SmallShape> shapes_;
  std::map<SmallShape, std::vector<std::size_t>> groups_;
  std::vector<std::size_t> row_at_, linear_at_;
  Array<std::byte> rows_;
  Array<std::int32_t> linear_;
  Array<SmallModel> models_;
};

}  // namespace isinglass::cuda
