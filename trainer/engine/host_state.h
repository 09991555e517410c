#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "model/tensor/host_mirror.h"
#include "parallel/data/sharded_optimizer.h"

namespace trireme {

// What a checkpoint stores of an engine, masters and optimizer state, in host memory: on the CPU
// the tensors themselves, else copies.
class HostState {
 public:
  HostState(const Stream& stream, const ParamStore& params, const ShardedOptimizer& optimizer)
      : masters_(stream, params.masters()) {
    for (const ShardedOptimizer::State& state : optimizer.states()) {
      states_.emplace_back(stream, state.flat);
    }
  }

  // Device to host, and host to device. Return when done.
  void download(Stream& stream) const;
  void upload(Stream& stream) const;

  // Of the store's masters, and of the optimizer's state of this index.
  const HostMirror& masters() const { return masters_; }
  const HostMirror& state(std::size_t i) const { return states_[i]; }

 private:
  HostMirror masters_;
  std::vector<HostMirror> states_;
};

}  // namespace trireme
