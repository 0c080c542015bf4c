#include "large_walks.hpp"

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

Reads large_anneal(const Qubo& qubo, const AnnealOptions& options, const Placement& placement, Control& control) {
  return anneal_one<DenseForm>(qubo, options, placement, control);
}

Tempered large_temper(const Qubo& qubo, const TemperOptions& options, const Placement& placement, Control& control) {
  return temper_one<DenseForm>(qubo, options, placement, control);
}

}  // namespace isinglass::cuda
