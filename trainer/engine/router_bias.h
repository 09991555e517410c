#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// The biases of routers (ops::route), which balance the load of experts without a loss: buffers of
// the store (ParamSpec::is_buffer), which every rank updates alike.
class RouterBias {
 public:
  // `shard`: the ranks that own other shards of the masters. Both outlive this.
  RouterBias(ParamStore& params, Communicator& shard);

  // Fills the buffers from masters that were loaded. Collective; queued.
  void load(Stream& stream);
  // A step's update by the choices `counts` [layers, experts] F32 of the whole batch. If grad_scale
  // is NaN nothing changes. Queued.
  void update(Stream& stream, Tensor counts, Tensor grad_scale, double rate);

 private:
  struct Layer {
    Weight* weight;
    std::int64_t number;                 // in the model
    std::vector<const ParamShard*> own;  // shards that this rank owns
  };
  ParamStore& params_;
  Communicator& shard_;
  std::vector<Layer> layers_;
};

}  // namespace trireme
