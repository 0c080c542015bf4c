// Embeddings that are scaled and summed on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "isinglass/control.hpp"
#include "isinglass/embeddings.hpp"

namespace isinglass::cuda {

/// Rows of embeddings, (n, d) in C order.
struct EmbeddingRows {
  const float* host = nullptr;
  const float* device = nullptr;  // where they lie on the device instead: read in place
  std::size_t n = 0, d = 0;
  std::span<const std::int32_t> sample;  // as of Embeddings, or empty; `host` stays in use then, or a copy is made
};

/// The same Embeddings as the constructor makes, bit for bit, with the sums that `sums` gives: unit rows and all n^2
/// products are the device's, by tiles that are never stored. Returns nullptr once `control` has stopped. Throws
/// std::invalid_argument for a row that is not finite.
std::unique_ptr<Embeddings> embed(const EmbeddingRows& rows, int device, Control& control);

/// What a greedy run asks of these Embeddings while it picks: rows, and what rows exceed a floor by, 128 items at a
/// time, of which the similarities are formed and summed on the device. It holds the rows there.
std::unique_ptr<SimilarityDevice> similarities(const EmbeddingRows& rows, int device);

/// Rows of a matrix, here or there.
struct SomeRows {
  const float* host = nullptr;
  const float* device = nullptr;
  std::size_t count = 0;
};
/// Similarities as Embeddings::of_rows makes them, bit for bit, of every row with every other one: (rows, others) in
/// C order at `to`, on the device, or at `to_host`. Undefined once `control` has stopped. Throws std::invalid_argument
/// for a row that is not finite.
void cosines(const SomeRows& rows, const SomeRows& others, std::size_t d, int device, float* to, float* to_host,
             Control& control);

}  // namespace isinglass::cuda
