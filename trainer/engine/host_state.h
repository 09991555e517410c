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
  Tensor first_moments() const { return first_.host(); }     // of the owned parts, flat
  Tensor second_moments() const { return second_.host(); }

 private:
  HostMirror masters_, first_, second_;
};

}  // namespace trireme
