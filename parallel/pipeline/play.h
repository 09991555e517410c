#pragma once
#include <limits>
#include <vector>

#include "parallel/pipeline/action_table.h"

namespace trireme {

// All ranks' lists played against each other. An action happens after the one before it
// in its list and after the one whose output it waits for.
struct Play {
  std::vector<Place> order;  // one in which everything that can happen happens
  std::vector<int> reached;  // by rank: how many of its actions can happen

  // By rank and index: the action to which another rank must have come first, because
  // it reads what lies in the outbox that is needed here.
  std::vector<std::vector<std::optional<Place>>> outbox_waits;
};

constexpr int kUnlimited = std::numeric_limits<int>::max();

// `outboxes`: of each rank. The gradients that it sends lie there until their reader has
// asked for them, which it does no later than when it comes to the action that reads.
// Activations lie where they were made until their gradient has come back; without
// backwards (evaluation) they lie in outboxes too.
//
// Each stage does everything once, on one rank.
Play play(const Schedule& schedule, const ActionTable& table, int outboxes = kUnlimited);

// The outbox of each of a rank's actions, by index in its list; -1 for one that sends
// nothing from an outbox. They are used in turn.
std::vector<int> assign_outboxes(const Schedule& schedule, const ActionTable& table, int rank,
                                 int outboxes);

}  // namespace trireme
