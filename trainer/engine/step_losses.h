#pragma once
#include <cstdint>
#include <vector>

#include "model/tensor/arena.h"
#include "model/tensor/host_mirror.h"
#include "parallel/data/gradient_reducer.h"
#include "trainer/engine/rank_groups.h"

namespace trireme {

// The losses of a step: the scale of those that are differentiated, the sum over each
// micro-batch's tokens, and the total over all data ranks.
class StepLosses {
 public:
  struct Size {
    std::int64_t micro_batches = 1;  // of this rank, at most
    int replicas = 1;                // context ranks that compute the same losses
  };
  // The groups and the stream outlive this.
  StepLosses(const RankGroups& groups, Stream& stream, const Size& size, Arena& data,
             Arena& workspace);

  // Multiplies the loss before its gradients are computed, so that float16 represents small ones;
  // a power of two, which adds no rounding.
  void set_loss_scale(double factor) { loss_scale_ = factor; }
  double loss_scale() const { return loss_scale_; }
  // The losses of the next step are means over the `valid` tokens, those of routers over all.
  void set_tokens(std::int64_t valid, std::int64_t all);
  // Queued.
  void upload_scale() { scale_.upload(stream_); }
  // [1] F64: what a micro-batch's summed loss is multiplied by.
  Tensor scale() const { return scale_.tensor().slice(0, 1); }
  Tensor router_scale() const { return scale_.tensor().slice(1, 1); }

  // Queued: clear before the first micro-batch, add for each, gather after the last.
  void clear();
  void add(int micro_batch, Tensor token_losses);
  void gather();

  // What was gathered, when the stream has reached it; 0 on a planning stream. The micro-batches
  // are summed in their global order, so that the bits do not depend on who has computed them.
  double sum(const MicroBatches& order) const;
  double mean(const MicroBatches& order) const { return sum(order) * per_token_; }

 private:
  const RankGroups& groups_;
  Stream& stream_;
  const int replicas_;
  const Tensor of_all_;     // [data ranks, micro_batches] F64
  const Tensor of_rank_;    // [micro_batches] F64, this rank's row of it
  const HostMirror host_;   // of of_all_
  const HostMirror scale_;  // [2] F64: of tokens' losses, of routers'
  double per_token_ = 1;
  double loss_scale_ = 1;
};

// A host copy of token losses, when all queued work is done.
std::vector<double> read_losses(Stream& stream, const Tensor& token_losses);

}  // namespace trireme
