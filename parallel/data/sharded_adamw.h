#pragma once
#include "model/ops/optimizer.h"
#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/ledger.h"
#include "parallel/data/grad_norm.h"

namespace trireme {

// AdamW over what this rank owns of the parameters: it keeps the moments of that and updates
// it (ZeRO-1, Rajbhandari et al. 2020). Who owns all has the plain optimizer.
class ShardedAdamW {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
    double max_norm = 1;  // 0: no clipping
  };
  // The norm's ranks and slice are GradNorm's.
  struct Ranks {
    Communicator& norm;
    Slice slice;
    Ledger* ledger = nullptr;  // told the update's phases, if any
  };
  // Takes the moments from `state` and the norm's partial sums from `workspace`,
  // for good. The store is allocated; `whole` declares all of the model (GradNorm).
  ShardedAdamW(ParamStore& store, const ParamStore& whole, Ranks ranks, const Options& options,
               Arena& state, Arena& workspace);

  // Clips the owned gradients, which are reduced, to max_norm by their global norm and
  // updates the owned parameters. `update` counts from 1 over the whole run.
  void step(Stream& stream, double learning_rate, std::int64_t update);

  // [1], the last step's norm before the clip; read it after the stream is synchronised.
  Tensor grad_norm() const { return norm_; }
  // The moments of the owned parts, flat.
  const Tensor& first_moments() const { return first_; }
  const Tensor& second_moments() const { return second_; }

 private:
  ParamStore& store_;
  Ledger* ledger_;
  Options options_;
  Tensor first_, second_;
  GradNorm squares_;
  Tensor norm_, scale_;
};

}  // namespace trireme
