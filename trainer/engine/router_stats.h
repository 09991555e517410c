#pragma once
#include <cstdint>
#include <vector>

#include "model/tensor/arena.h"
#include "model/tensor/host_mirror.h"
#include "parallel/data/gradient_reducer.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/rank_groups.h"

namespace trireme {

// What the routers of a step's micro-batches report, over all ranks. For a model with experts.
class RouterStats {
 public:
  // The groups and the stream outlive this.
  RouterStats(const RankGroups& groups, Stream& stream, const EngineSpec& spec, Arena& workspace);

  // Queued: clear before the first micro-batch, which all write to sink(), gather after the last.
  void clear();
  RouterSink sink(int micro_batch) const;
  // `rounds`: of this rank's expert exchange.
  void gather(std::int64_t rounds);
  // [layers, experts] F32, of all ranks after gather().
  Tensor counts() const { return counts_.tensor(); }

  struct LayerLoad {
    std::int64_t layer = 0;
    std::vector<std::int64_t> counts = {};  // how often each expert is chosen
    double max_over_mean = 0;               // of the counts
  };
  struct Result {
    // Means over layers with experts and micro-batches.
    double balance_loss = 0;            // top_k if experts are even
    double z_loss = 0;                  // of the tokens
    double entropy = 0;                 // of the tokens' scores; log(experts) if they are even
    std::vector<LayerLoad> loads = {};  // of the layers with experts
    // Most rounds in which the experts of a rank took a micro-batch's rows, over all layers.
    std::int64_t rounds = 1;
    double max_over_mean() const;  // of the layer where it is highest
  };
  // When the stream has reached what was gathered. Micro-batches of `tokens` are added in their
  // global order, so that the bits do not depend on who has computed them.
  Result result(const MicroBatches& order, std::int64_t tokens) const;

 private:
  const RankGroups& groups_;
  Stream& stream_;
  // Ranks that report terms of the same micro-batches.
  const std::vector<Communicator*> sharers_;
  const std::vector<std::int64_t> sparse_layers_;
  const std::int64_t experts_;
  const Tensor of_all_;      // [data ranks, micro_batches layers kRouterSums] F64
  const Tensor of_rank_;     // [micro_batches, layers, kRouterSums], this rank's row of it
  const HostMirror losses_;  // of of_all_
  const HostMirror rounds_;  // [1] F64
  const HostMirror counts_;  // [layers, experts] F32: choices, which float32 counts exactly
};

}  // namespace trireme
