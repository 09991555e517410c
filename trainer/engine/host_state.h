#pragma once
#include "model/params/param_store.h"
#include "model/tensor/host_mirror.h"
#include "parallel/data/sharded_adamw.h"

namespace trireme {

// What a checkpoint keeps of an engine, masters and moments, in memory of the host: on the
// CPU the very tensors, of another device copies.
class HostState {
 public:
  HostState(const Stream& stream, const ParamStore& params, const ShardedAdamW& optimizer)
      : masters_(stream, params.masters()),
        first_(stream, optimizer.first_moments()),
        second_(stream, optimizer.second_moments()) {}

  // The host's become the device's as they are now, or the other way round. Return when done.
  void download(Stream& stream) const;
  void upload(Stream& stream) const;

  const Tensor& masters() const { return masters_.host(); }  // flat, like the store's
  Tensor master(const Param& param) const { return part(masters_, param); }
  Tensor first_moment(const Param& param) const { return part(first_, param); }
  Tensor second_moment(const Param& param) const { return part(second_, param); }

 private:
  static Tensor part(const HostMirror& flat, const Param& param) {
    return flat.host().slice(param.offset, param.master.count()).reshaped(param.master.shape);
  }
  HostMirror masters_, first_, second_;
};

}  // namespace trireme
