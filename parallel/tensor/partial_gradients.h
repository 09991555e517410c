#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "model/stage/model_config.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Number of `ranks` that hold each key-value head: that many adjacent ranks sum its gradients. Of
// ranks and key-value heads, one number divides the other.
int key_value_replicas(const ModelConfig& model, int ranks);

// Completes gradients of replicated parameters to which each replica contributes a partial sum
// (ParamSpec::partial): gains and biases between regions under sequence parallelism, QK-norm gains,
// key-value heads shared by several ranks. Runs once per step after the last backward: all small
// gradients in one all-reduce per group, large ones in place.
class PartialGradients {
 public:
  // From this size on bandwidth dominates latency.
  static constexpr std::int64_t kLarge = std::int64_t{1} << 18;

  // The group of a parameter is found in `groups` by its number of replicas: the tensor group, and
  // the ranks that share a key-value head (key_value_replicas) if these are fewer. The store is
  // allocated, and all ranks own the same elements of it. Permanently allocates messages in
  // `messages`; ranges of at least `large` elements are not copied. Throws if a partial gradient
  // has no group.
  PartialGradients(ParamStore& params, const std::vector<Communicator*>& groups, Arena& messages,
                   std::int64_t large = kLarge);

  void sum(Stream& stream) const;

 private:
  struct Group {
    Communicator* ranks;
    std::vector<Tensor> large, small;  // contiguous ranges of the store's gradients
    Tensor message;                    // buffer for `small`, contiguous
  };
  std::vector<Group> groups_;
};

}  // namespace trireme
