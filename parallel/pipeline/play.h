#pragma once
#include <limits>
#include <vector>

#include "parallel/pipeline/action_table.h"

namespace trireme {

// Symbolic execution of all ranks' lists. An action runs after its predecessor in the list and
// after the action whose output it needs.
struct Play {
  std::vector<Place> order;  // an execution order of all actions that can run
  std::vector<int> reached;  // by rank: number of actions that can run

  // By rank and index: the action that another rank must have reached first, because it reads the
  // outbox to be reused.
  std::vector<std::vector<std::optional<Place>>> outbox_waits;
};

constexpr int kUnlimited = std::numeric_limits<int>::max();

// `outboxes` is the number per rank. A sent gradient occupies an outbox until its reader has
// received it, at the latest when the reader's rank reaches the reading action. Activations stay in
// their slot until their gradient arrives; without backwards (evaluation) they use outboxes too.
//
// Requires that each stage runs every action once, on one rank.
Play play(const Schedule& schedule, const ActionTable& table, int outboxes = kUnlimited);

// The outbox of each action of a rank, by index in its list, assigned round-robin; -1 for actions
// that send nothing from an outbox.
std::vector<int> assign_outboxes(const Schedule& schedule, const ActionTable& table, int rank,
                                 int outboxes);

}  // namespace trireme
