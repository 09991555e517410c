#pragma once
#include <functional>

#include "model/tensor/arena.h"
#include "parallel/pipeline/rank_plan.h"

namespace trireme {

// Launches the computation of an action in training, between the messages that it waits for and
// those that it causes. This base class calls it; a derived class may record the device's work and
// repeat it without the call.
class ActionLauncher {
 public:
  ActionLauncher() = default;
  ActionLauncher(const ActionLauncher&) = delete;
  ActionLauncher& operator=(const ActionLauncher&) = delete;
  virtual ~ActionLauncher() = default;

  // Returns what `compute` does: the action's output. Equal slots, boxes and kinds in `step` mean
  // equal addresses. `saved` is the arena of the slot: its use afterwards is that after `compute`.
  virtual Tensor launch(Stream&, const RankPlan::Step&, Arena& /*saved*/,
                        const std::function<Tensor()>& compute) {
    return compute();
  }
};

}  // namespace trireme
