#include "trainer/engine/router_bias.h"

#include "model/device/copy.h"
#include "model/ops/elementwise.h"
#include "model/ops/routing.h"

namespace trireme {

RouterBias::RouterBias(ParamStore& params, Communicator& shard) : params_(params), shard_(shard) {
  for (Weight& weight : params.weights()) {
    if (!weight.buffer) continue;
    Layer& layer = layers_.emplace_back(&weight, params.units()[weight.unit].layer);
    for (const ParamShard& own : params.shards()) {
      if (own.param == &weight.parts.front()) layer.own.push_back(&own);
    }
  }
}

void RouterBias::load(Stream& stream) {
  if (layers_.empty()) return;
  params_.fill_buffers(stream);
  if (shard_.size() == 1) return;
  // Each element is zero on all ranks but its owner.
  for (const Layer& layer : layers_) {
    shard_.all_reduce(stream, layer.weight->buffer, Reduce::kSum);
  }
}

void RouterBias::update(Stream& stream, Tensor counts, Tensor grad_scale, double rate) {
  for (const Layer& layer : layers_) {
    const Tensor& buffer = layer.weight->buffer;
    ops::update_router_bias(stream, buffer, counts.row_slice(layer.number, 1), grad_scale, rate);
    for (const ParamShard* own : layer.own) {
      const Tensor updated = buffer.slice(own->first, own->count());
      if (own->master.dtype == updated.dtype) {  // the master may be in host memory
        copy_bytes(stream, own->master.data, updated.data, updated.bytes());
      } else {
        ops::cast(stream, own->master, updated);
      }
      if (own->value.data != own->master.data) ops::cast(stream, own->value, updated);
    }
  }
}

}  // namespace trireme
