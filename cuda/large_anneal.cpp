#include "large_anneal.hpp"

#include "isinglass/tabu.hpp"
#include "large_batch.hpp"
#include "one_model.hpp"

namespace isinglass::cuda {
namespace {

/// A block a read.
class DenseForm {
 public:
  DenseForm(Batch& batch, const Qubo& qubo, const AnnealOptions& options, std::size_t first, std::size_t count)
      : batch_(batch),
        options_(options),
        n_(qubo.size()),
        words_(words_of(n_)),
        first_(first),
        count_(count),
        rows_(batch, qubo),
        t2_(batch.input<float>(options.t2.size())),
        given_(batch.input<std::uint32_t>(options.initial_states != nullptr ? count * words_ : 0)),
        states_(batch.output<std::uint32_t>(count * words_)),
        records_(batch.output<LargeRecord>(count)),
        bests_(batch.scratch<std::uint32_t>(count * words_)),
        fields_(batch.scratch<std::int32_t>(count * field_count(n_))) {}

  void fill() const {
    rows_.fill();
    std::copy(options_.t2.begin(), options_.t2.end(), batch_.host(t2_).begin());
    for (std::size_t r = 0; options_.initial_states != nullptr && r < count_; ++r) {
      pack(options_.initial_states + (first_ + r) * n_, n_, batch_.host(given_).data() + r * words_);
    }
  }

  void launch(const SweepSlice& slice) const {
    LargeSweepArgs args{};
    args.model = rows_.device();
    args.seed = options_.seed;
    args.first_read = first_;
    args.records = batch_.device(records_);
    args.states = batch_.device(states_);
    args.given = options_.initial_states != nullptr ? batch_.device(given_) : nullptr;
    args.bests = batch_.device(bests_);
    args.fields = batch_.device(fields_);
    args.t2 = batch_.device(t2_);
    args.first = slice.first;
    args.count = slice.count;
    args.begins = slice.begins;
    args.keep_best = options_.quench;
    args.finish = slice.finish;
    batch_.launch(rows_.pick(large_sweep_8, large_sweep_16, large_sweep_32),
                  {static_cast<unsigned>(count_), rows_.threads(), sweep_bytes(n_)}, args);
  }

  void state(std::size_t read, std::uint8_t* out) const {
    unpack(batch_.host(states_).data() + read * words_, n_, out);
  }
  std::uint64_t flips(std::size_t read) const { return batch_.host(records_)[read].flips; }

 private:
  Batch& batch_;
  const AnnealOptions& options_;
  std::size_t n_, words_, first_, count_;
  LargeRows rows_;
  Array<float> t2_;
  Array<std::uint32_t> given_, states_;
  Array<LargeRecord> records_;
  Array<std::uint32_t> bests_;
  Array<std::int32_t> fields_;
};

}  // namespace

Reads large_anneal(const Qubo& qubo, const AnnealOptions& options, const Placement& placement, Control& control) {
  return anneal_one<DenseForm>(qubo, options, placement, control);
}

}  // namespace isinglass::cuda
