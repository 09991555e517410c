#pragma once
#include <optional>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace trireme {

// An action's place in a schedule.
struct Place {
  int rank = 0;
  int index = 0;  // in the rank's list
  bool operator==(const Place&) const = default;
};

// Where a schedule does what. The schedule's actions name existing stages and
// micro-batches; it outlives the table.
class ActionTable {
 public:
  explicit ActionTable(const Schedule& schedule);

  int rank_of(int stage) const { return ranks_[static_cast<std::size_t>(stage)]; }
  const Action& at(const Place& place) const;

  // Nothing where the schedule does not do it.
  std::optional<Place> forward(int stage, int micro_batch) const;
  // What makes the gradient of the stage's input.
  std::optional<Place> input_gradient(int stage, int micro_batch) const;
  // What reads the forward's tensors for the last time.
  std::optional<Place> last(int stage, int micro_batch) const;

  // Whose output the action waits for, in the neighbouring stage; nothing for a
  // model's input, for the loss's gradient and for weights.
  std::optional<Place> source_of(const Action& action) const;
  // Who waits for the action's output; nothing for those it has no output for.
  std::optional<Place> reader_of(const Action& action) const;

 private:
  std::size_t cell(int stage, int micro_batch) const;
  std::optional<Place> find(const std::vector<int>& where, int stage, int micro_batch) const;
  const Schedule& schedule_;
  std::vector<int> ranks_;                              // by stage
  std::vector<int> forwards_, input_gradients_, last_;  // indices, by cell; -1 for none
};

}  // namespace trireme
