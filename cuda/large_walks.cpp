#include "large_walks.hpp"

#include "isinglass/moves.hpp"
#include "large_batch.hpp"
#include "one_model.hpp"

namespace isinglass::cuda {
namespace {

class DenseForm {
 public:
  DenseForm(Batch& batch, const Qubo& qubo, const Start& start)
      : rows_(batch, qubo), replicas_(batch, rows_, start.seed, numbered(start), start.states, start.of_state) {}

  void fill() const {
    rows_.fill();
    replicas_.fill();
  }
  void launch(const SweepSlice& slice) const { replicas_.launch(slice); }
  static constexpr bool kByVariable = false;
  const std::uint32_t* words() const { return replicas_.words(); }
  const ReplicaRecord* records() const { return replicas_.records(); }
  const ReplicaRecord& record(std::size_t replica) const { return replicas_.record(replica); }
  void state(std::size_t replica, std::uint8_t* out) const { replicas_.state(replica, out); }

 private:
  static std::vector<LargeReplica> numbered(const Start& start) {
    std::vector<LargeReplica> replicas(start.count);
    for (std::size_t r = 0; r < start.count; ++r) {
      replicas[r] = {start.first + r, 0, std::numeric_limits<std::uint32_t>::max()};
    }
    return replicas;
  }

  LargeRows rows_;
  LargeReplicas replicas_;
};

}  // namespace

std::size_t most_large(const Qubo& qubo) { return is_narrow(qubo) ? 2 * kMostLarge : kMostLarge; }

Reads large_anneal(const Qubo& qubo, const AnnealOptions& options, const Placement& placement, Control& control) {
  return anneal_one<DenseForm>(qubo, options, placement, control);
}

Tempered large_temper(const Qubo& qubo, const TemperOptions& options, const Placement& placement, Control& control) {
  return temper_one<DenseForm>(qubo, options, placement, control);
}

Window large_probe(const Qubo& qubo, int device) {
  if (const Window wide = wide_window(qubo); wide.hot == 0) return wide;
  const std::vector<double> temperatures = probe_temperatures(qubo);
  Batch batch(device);
  DenseForm form(batch, qubo, {stream::probe, 0, kProbeReads, nullptr, 1});
  const auto t2 = batch.input<float>(temperatures.size());
  const auto moves = batch.in_out<Moves>(temperatures.size());
  batch.allocate();
  form.fill();
  std::ranges::transform(temperatures, batch.host(t2).begin(), kernel_temperature);
  std::ranges::fill(batch.host(moves), Moves{});
  batch.upload();
  for (std::uint32_t sweep = 0; sweep < temperatures.size(); ++sweep) {
    form.launch({batch.device(t2), nullptr, nullptr, sweep, 1, sweep == 0, false, false, batch.device(moves)});
  }
  batch.download();
  batch.wait();
  std::vector<MoveCounts> counts;
  for (const Moves& m : batch.host(moves)) {
    counts.push_back({static_cast<std::uint64_t>(m.changing), static_cast<std::uint64_t>(m.uphill)});
  }
  return window_of(qubo, temperatures, counts);
}

}  // namespace isinglass::cuda
