// A large dense model in a batch, and replicas of it: a block each.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "device_model.hpp"
#include "isinglass/qubo.hpp"
#include "isinglass/tabu.hpp"
#include "large_kernels.hpp"
#include "one_model.hpp"
#include "runtime.hpp"

namespace isinglass::cuda {

/// Whether 16 bits hold every field, whatever the state.
inline bool is_narrow(const Qubo& qubo) { return qubo.worst_field() < std::numeric_limits<std::int16_t>::max(); }

/// Its rows and biases, and the kernels for them.
class LargeRows {
 public:
  LargeRows(Batch& batch, const Qubo& qubo)
      : batch_(batch),
        qubo_(qubo),
        there_(device_rows(qubo)),
        bytes_(bytes_of_rows(qubo.largest_coupling())),
        stride_(stride_of(qubo.size())),
        rows_(batch.input<std::byte>(there_ == nullptr ? qubo.size() * stride_ * bytes_ : 0)),
        linear_(batch.input<std::int32_t>(qubo.size())) {}

  void fill() const {
    std::copy(qubo_.linear().begin(), qubo_.linear().end(), batch_.host(linear_).begin());
    if (there_ != nullptr) return;
    const auto copy = [&](const auto& rows) {
      const auto* const from = reinterpret_cast<const std::byte*>(rows.values.data());
      std::copy(from, from + rows_.count, batch_.host(rows_).begin());
    };
    if (bytes_ == 1) {
      copy(qubo_.rows8());
    } else if (bytes_ == 2) {
      copy(qubo_.rows16());
    } else {
      copy(qubo_.rows32());
    }
  }

  LargeModel device() const {
    return {there_ == nullptr ? batch_.device(rows_) : there_->memory.as<void>(), batch_.device(linear_),
            static_cast<std::uint32_t>(qubo_.size()), static_cast<std::uint32_t>(stride_)};
  }

  std::size_t size() const { return qubo_.size(); }

  bool narrow() const { return is_narrow(qubo_); }

  const Kernel& pick(const LargeKernels& kernels) const {
    if (narrow()) return bytes_ == 1 ? kernels.of8_16 : kernels.of16_16;
    return bytes_ == 1 ? kernels.of8_32 : bytes_ == 2 ? kernels.of16_32 : kernels.of32_32;
  }

  /// Threads of a replica: a warp goes over 2048 variables in the time that a row takes to arrive.
  unsigned threads() const {
    constexpr std::size_t kOfWarp = 2048;
    const std::size_t warps = std::bit_ceil((qubo_.size() + kOfWarp - 1) / kOfWarp);
    return static_cast<unsigned>(32 * std::clamp<std::size_t>(warps, 1, kLargeThreads / 32));
  }

 private:
  Batch& batch_;
  const Qubo& qubo_;
  const DeviceRows* there_;
  std::uint32_t bytes_;
  std::size_t stride_;
  Array<std::byte> rows_;
  Array<std::int32_t> linear_;
};

/// Replicas of a model whose rows may lie in another batch.
class LargeReplicas {
 public:
  /// Those of `of_state` replicas begin at the same of `states`, or all at random ones (nullptr).
  LargeReplicas(Batch& batch, const LargeRows& rows, std::uint64_t seed, std::vector<LargeReplica> replicas,
                const std::uint8_t* states, std::size_t of_state)
      : batch_(batch),
        rows_(rows),
        seed_(seed),
        replicas_(std::move(replicas)),
        initial_(states),
        of_state_(of_state),
        words_(words_of(rows.size())),
        replica_array_(batch.input<LargeReplica>(replicas_.size())),
        given_(batch.input<std::uint32_t>(states != nullptr ? replicas_.size() * words_ : 0)),
        states_(batch.output<std::uint32_t>(replicas_.size() * words_)),
        records_(batch.output<ReplicaRecord>(replicas_.size())),
        bests_(batch.scratch<std::uint32_t>(replicas_.size() * words_)),
        fields_(batch.scratch<std::byte>(replicas_.size() * field_bytes(rows.size(), rows.narrow()))) {}

  void fill() const {
    std::ranges::copy(replicas_, batch_.host(replica_array_).begin());
    for (std::size_t r = 0; initial_ != nullptr && r < replicas_.size(); ++r) {
      pack(initial_ + r / of_state_ * rows_.size(), rows_.size(), batch_.host(given_).data() + r * words_);
    }
  }

  void launch(const SweepSlice& slice) const {
    const LargeSweepArgs args{rows_.device(),
                              seed_,
                              batch_.device(replica_array_),
                              batch_.device(records_),
                              batch_.device(states_),
                              initial_ != nullptr ? batch_.device(given_) : nullptr,
                              batch_.device(bests_),
                              batch_.device(fields_),
                              slice.t2,
                              slice.t2_each,
                              slice.over,
                              slice.moves,
                              slice.first,
                              slice.count,
                              slice.begins,
                              slice.keep_best,
                              slice.finish};
    batch_.launch(rows_.pick(slice.moves == nullptr ? large_sweep_kernels : large_probe_kernels),
                  {static_cast<unsigned>(replicas_.size()), rows_.threads(), sweep_bytes(rows_.size(), rows_.narrow())},
                  args);
  }

  const std::uint32_t* words() const { return batch_.device(states_); }
  const ReplicaRecord* records() const { return batch_.device(records_); }
  const ReplicaRecord& record(std::size_t replica) const { return batch_.host(records_)[replica]; }
  const std::uint32_t* words(std::size_t replica) const { return batch_.host(states_).data() + replica * words_; }
  void state(std::size_t replica, std::uint8_t* out) const { unpack(words(replica), rows_.size(), out); }

 private:
  Batch& batch_;
  const LargeRows& rows_;
  std::uint64_t seed_;
  std::vector<LargeReplica> replicas_;
  const std::uint8_t* initial_;
  std::size_t of_state_, words_;
  Array<LargeReplica> replica_array_;
  Array<std::uint32_t> given_, states_;
  Array<ReplicaRecord> records_;
  Array<std::uint32_t> bests_;
  Array<std::byte> fields_;
};

}  // namespace isinglass::cuda
