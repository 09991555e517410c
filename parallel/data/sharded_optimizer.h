#pragma once
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/ledger.h"
#include "parallel/data/grad_norm.h"
#include "parallel/data/staging.h"
#include "parallel/data/update_rule.h"

namespace trireme {

// An optimizer over what this rank owns of the parameters: it keeps the state of that and
// updates it (ZeRO-1, Rajbhandari et al. 2020). Who owns all has the plain optimizer.
class ShardedOptimizer {
 public:
  struct Options {
    OptimizerOptions rule;
    double max_norm = 1;  // 0: no clipping
  };
  // The norm's ranks and slice are GradNorm's.
  struct Ranks {
    Communicator& norm;
    Slice slice;
    UpdateRanks update;
    Ledger* ledger = nullptr;  // told the update's phases, if any
  };
  // What is kept from step to step under one name, of all ranges that have it, back to back.
  struct State {
    std::string name;  // UpdateRule::State's
    Tensor flat;
    struct Part {
      const ParamStore::Owned* of;
      std::int64_t at;  // its first element in `flat`
    };
    std::vector<Part> parts;
  };
  // Takes the state from `state` and temporaries from `workspace`, for good. The store is
  // allocated; `whole` declares all of the model (GradNorm). Where `state`, or the store's
  // masters, lie on the host and its values on a device, the update brings them piece by piece
  // (Staging), in memory that it takes from `workspace` for the time. Both arenas outlive this.
  ShardedOptimizer(ParamStore& store, const ParamStore& whole, Ranks ranks, const Options& options,
                   Arena& state, Arena& workspace);

  // Clips the owned gradients, which are reduced, to max_norm by their global norm and
  // updates the owned parameters. `update` counts from 1 over the whole run. Nothing changes
  // when the norm is not finite or above `norm_limit`. The gradients are those of `loss_scale`
  // times the loss; the norm and the update are the loss's own.
  void step(Stream& stream, double learning_rate, std::int64_t update,
            double norm_limit = std::numeric_limits<double>::infinity(), double loss_scale = 1);

  // Makes the owned values what `update` updates left of the masters, after these were loaded.
  void publish_masters(Stream& stream, std::int64_t update);

  // [1], the last step's norm before the clip; read it after the stream is synchronised.
  Tensor grad_norm() const { return norm_; }
  const std::vector<State>& states() const { return states_; }

 private:
  void take_states(const ParamStore& store, Arena& state);

  template <class Body>
  void with_staging(Stream& stream, const Body& body);

  Ledger* ledger_;
  Options options_;
  Arena& workspace_;
  GradNorm squares_;
  std::unique_ptr<UpdateRule> rule_;
  std::vector<UpdateRange> ranges_;
  std::vector<State> states_;
  std::optional<Staging> staging_;
  Tensor norm_, scale_;
};

}  // namespace trireme
