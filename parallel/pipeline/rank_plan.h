#pragma once
#include <cstddef>
#include <vector>

#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/slots.h"

namespace trireme {

// A rank's list with static memory assignment for every action and message:
//  * slots for saved activations: per pool as many as it has micro-batches in flight;
//  * inboxes for received tensors: from the start of the receive until the backward of the
//    micro-batch, which reads them again;
//  * outboxes for gradients being sent (see action_table.h).
// A message between two stages of one rank is written directly to its reader's inbox.
struct RankPlan {
  struct Step {
    Action action;
    int slot = 0;
    int inbox = -1;   // of its input; -1: none
    int outbox = -1;  // of its output; -1: sent from its slot, or not sent
    // Ranks of the messages; -1: none, or this rank itself.
    int from = -1;
    int to = -1;
    int own_reader_inbox = -1;  // inbox of a reader on this rank
    // Of the micro-batch's forward in this stage, and of the input half of a split backward: what
    // the two save refers to their inboxes.
    int forward_inbox = -1;
    int split_inbox = -1;
  };
  std::vector<Step> steps;
  int inboxes = 0, outboxes = 0;
};

struct RankPlans {
  RankPlan training;
  RankPlan evaluation;  // the same forwards; each uses a slot of its stage in training
};

// Receives start `receive_ahead` actions before their reader. The schedule has passed the checker.
RankPlans plan_rank(const Schedule& schedule, int rank, int receive_ahead, const SlotPools& pools);

// The steps without those of micro-batches that take the memory of an earlier one in their stage.
// What a step takes depends on its kind and on which boxes it has, not on their numbers nor on its
// slot; and the first step of a kind may replace gradients to which the others add.
RankPlan without_repeats(const RankPlan& plan);

}  // namespace trireme
