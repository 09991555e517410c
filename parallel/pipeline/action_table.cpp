#include "parallel/pipeline/action_table.h"

namespace trireme {

ActionTable::ActionTable(const Schedule& schedule)
    : schedule_(schedule), ranks_(ranks_of_stages(schedule)) {
  const auto cells =
      static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(schedule.micro_batches);
  for (std::vector<int>* where : {&forwards_, &input_gradients_, &last_}) where->assign(cells, -1);
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      const std::size_t at = cell(action.stage, action.micro_batch);
      if (action.kind == Action::Kind::kForward) forwards_[at] = static_cast<int>(i);
      if (action.makes_input_gradient()) input_gradients_[at] = static_cast<int>(i);
      if (action.is_last_of_micro_batch()) last_[at] = static_cast<int>(i);
    }
  }
}

const Action& ActionTable::at(const Place& place) const {
  return schedule_.ranks[place.rank][place.index];
}

std::size_t ActionTable::cell(int stage, int micro_batch) const {
  return static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.micro_batches) +
         static_cast<std::size_t>(micro_batch);
}

std::optional<Place> ActionTable::find(const std::vector<int>& where, int stage,
                                       int micro_batch) const {
  if (stage < 0 || stage >= schedule_.stages) return {};
  const int index = where[cell(stage, micro_batch)];
  if (index < 0) return {};
  return Place{rank_of(stage), index};
}

std::optional<Place> ActionTable::forward(int stage, int micro_batch) const {
  return find(forwards_, stage, micro_batch);
}
std::optional<Place> ActionTable::input_gradient(int stage, int micro_batch) const {
  return find(input_gradients_, stage, micro_batch);
}
std::optional<Place> ActionTable::last(int stage, int micro_batch) const {
  return find(last_, stage, micro_batch);
}

std::optional<Place> ActionTable::source_of(const Action& action) const {
  if (action.kind == Action::Kind::kForward) return forward(action.stage - 1, action.micro_batch);
  if (!action.makes_input_gradient()) return {};
  return input_gradient(action.stage + 1, action.micro_batch);
}

std::optional<Place> ActionTable::reader_of(const Action& action) const {
  if (action.kind == Action::Kind::kForward) return forward(action.stage + 1, action.micro_batch);
  if (!action.makes_input_gradient()) return {};
  return input_gradient(action.stage - 1, action.micro_batch);
}

}  // namespace trireme
