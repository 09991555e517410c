#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Makes gradients whole of which every replica has computed a share
// (ParamSpec::partial): gains and biases between regions under sequence
// parallelism, QK-norm's gains, key-value heads that several ranks hold. Once a
// step, after the last backward: all small gradients in one message a group,
// large ones where they lie.
class PartialGradients {
 public:
  // From this many elements on the time of a message is its size.
  static constexpr std::int64_t kLarge = std::int64_t{1} << 18;

  // The replicas of a parameter are found among `groups` by their number: the
  // tensor group, and the ranks that share a key-value head (key_value_replicas)
  // where these are fewer. The store is allocated, and what this rank owns of it are
  // the same elements as on the other ranks; the messages' memory is taken for good. Runs of
  // `large` elements and more are not copied. Throws when a partial gradient has no group to be
  // summed in.
  PartialGradients(ParamStore& params, const std::vector<Communicator*>& groups, Arena& messages,
                   std::int64_t large = kLarge);

  void sum(Stream& stream) const;

 private:
  struct Group {
    Communicator* ranks;
    std::vector<Tensor> large, small;  // flat runs of the store's gradients
    Tensor message;                    // room for `small`, back to back
  };
  std::vector<Group> groups_;
};

}  // namespace trireme
