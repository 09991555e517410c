#pragma once
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

}  // namespace trireme
