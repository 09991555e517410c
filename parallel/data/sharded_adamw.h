#pragma once
#include <limits>

#include "model/ops/optimizer.h"
#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/ledger.h"
#include "parallel/data/grad_norm.h"

namespace trireme {

// AdamW over the data-parallel group, ZeRO-1 (Rajbhandari et al. 2020): every
// rank owns one equal range of the flat parameters, keeps the moments of that
// range and updates it. A group of one is the plain optimizer.
class ShardedAdamW {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
    double max_norm = 1;  // 0: no clipping
  };
  // The ranks that share the work of one update.
  struct Ranks {
    Communicator& data;        // those with the same share of the model, and other data
    Communicator& model;       // those that share the model
    Ledger* ledger = nullptr;  // told the update's phases, if any
  };
  // Takes the moments from `state` and the norm's partial sums from `workspace`,
  // for good. The store is allocated; `whole` declares all of the model (GradNorm).
  ShardedAdamW(ParamStore& store, const ParamStore& whole, Ranks ranks, const Options& options,
               Arena& state, Arena& workspace);

  // Reduces the gradients, clips them to max_norm by their global norm, updates
  // and publishes the parameters. `update` counts from 1 over the whole run. Nothing
  // changes when the norm is not finite or above `norm_limit`.
  void step(Stream& stream, double learning_rate, std::int64_t update,
            double norm_limit = std::numeric_limits<double>::infinity());

  // [1], the last step's norm before the clip; read it after the stream is synchronised.
  Tensor grad_norm() const { return norm_; }
  // The moments that this rank holds, flat, like the store's masters.
  const Tensor& first_moments() const { return first_; }
  const Tensor& second_moments() const { return second_; }

 private:
  static Tensor of(const Tensor& flat, const Param& param) {
    return flat.slice(param.offset, param.master.count()).reshaped(param.master.shape);
  }
  ParamStore& store_;
  Communicator& data_;
  Ledger* ledger_;
  Options options_;
  Tensor first_, second_;
  GradNorm squares_;
  Tensor norm_, scale_;
};

}  // namespace trireme
