#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace trireme {

// Position of an action in a schedule.
struct Place {
  int rank = 0;
  int index = 0;  // in the rank's list
  bool operator==(const Place&) const = default;
};

// Index of the actions of a schedule. Its actions name existing stages and micro-batches; the
// schedule outlives the table.
class ActionTable {
 public:
  explicit ActionTable(const Schedule& schedule);

  int rank_of(int stage) const { return ranks_[stage]; }
  const Action& at(const Place& place) const;

  // Nullopt if the schedule has no such action.
  std::optional<Place> forward(int stage, int micro_batch) const;
  // The action that computes the gradient of the stage's input.
  std::optional<Place> input_gradient(int stage, int micro_batch) const;
  // The last action that reads the saved tensors of the forward.
  std::optional<Place> last(int stage, int micro_batch) const;

  // The action in the adjacent stage whose output `action` needs; nullopt for the model's input,
  // the loss gradient and weight gradients.
  std::optional<Place> source_of(const Action& action) const;
  // The action that needs the output of `action`; nullopt if there is none.
  std::optional<Place> reader_of(const Action& action) const;

 private:
  std::size_t cell(int stage, int micro_batch) const;
  std::optional<Place> find(const std::vector<int>& where, int stage, int micro_batch) const;
  const Schedule& schedule_;
  std::vector<int> ranks_;                              // by stage
  std::vector<int> forwards_, input_gradients_, last_;  // index by cell; -1: none
};

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
