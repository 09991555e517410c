#pragma once
#include <cstddef>
#include <vector>

#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/slots.h"

namespace trireme {

// A rank's list with the memory of every action and message settled beforehand:
//  * slots, for what forwards keep: as many in a pool as it has micro-batches in flight;
//  * inboxes, for what is received: from the start of the receive until the
//    micro-batch has gone backward, which reads it again;
//  * outboxes, for gradients on their way (see play.h).
// A message between two stages of one rank is written to its reader's inbox at once.
struct RankPlan {
  struct Step {
    Action action;
    int slot = 0;
    int inbox = -1;   // of its input; -1 where it needs none
    int outbox = -1;  // of what it sends; -1: sent from its slot, or not at all
    // The ranks at the other ends; -1 for none, and where this is this rank itself.
    int from = -1;
    int to = -1;
    int own_reader_inbox = -1;  // where a reader on this rank expects its output
  };
  std::vector<Step> steps;
  int inboxes = 0, outboxes = 0;
};

struct RankPlans {
  RankPlan training;
  RankPlan evaluation;  // the same forwards; each uses a slot that its stage has in training
};

// Receives start `receive_ahead` actions before the one that reads. The schedule has
// passed the checker.
RankPlans plan_rank(const Schedule& schedule, int rank, int receive_ahead, const SlotPools& pools);

}  // namespace trireme
