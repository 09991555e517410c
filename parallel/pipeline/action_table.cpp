#include "parallel/pipeline/action_table.h"

#include <algorithm>

namespace trireme {
namespace {

bool is_evaluation(const std::vector<Action>& actions) {
  return std::all_of(actions.begin(), actions.end(),
                     [](const Action& a) { return a.kind == Action::Kind::kForward; });
}

// Readers of what a rank's actions send from outboxes, by index in its list.
std::vector<std::optional<Place>> readers_of_outboxes(const Schedule& schedule,
                                                      const ActionTable& table, int rank) {
  const std::vector<Action>& actions = schedule.ranks[rank];
  const bool evaluation = is_evaluation(actions);
  std::vector<std::optional<Place>> readers;
  for (const Action& action : actions) {
    const std::optional<Place> reader =
        evaluation || action.makes_input_gradient() ? table.reader_of(action) : std::nullopt;
    readers.push_back(reader && reader->rank != rank ? reader : std::nullopt);
  }
  return readers;
}

std::vector<std::optional<Place>> outbox_waits_of(const Schedule& schedule,
                                                  const ActionTable& table, int rank,
                                                  int outboxes) {
  const auto readers = readers_of_outboxes(schedule, table, rank);
  std::vector<std::optional<Place>> waits(readers.size());
  if (outboxes == kUnlimited) return waits;
  std::vector<Place> sent;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (!readers[i]) continue;
    if (sent.size() >= static_cast<std::size_t>(outboxes)) {
      waits[i] = sent[sent.size() - outboxes];
    }
    sent.push_back(*readers[i]);
  }
  return waits;
}

}  // namespace

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

Play play(const Schedule& schedule, const ActionTable& table, int outboxes) {
  Play result;
  const std::size_t ranks = schedule.ranks.size();
  std::size_t total = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    result.outbox_waits.push_back(outbox_waits_of(schedule, table, static_cast<int>(r), outboxes));
    total += schedule.ranks[r].size();
  }
  result.order.reserve(total);
  result.reached.assign(ranks, 0);
  const auto reached = [&](const Place& place) { return result.reached[place.rank]; };
  const auto can_happen = [&](std::size_t rank, std::size_t index) {
    const std::optional<Place> source = table.source_of(schedule.ranks[rank][index]);
    if (source && reached(*source) <= source->index) return false;
    const std::optional<Place>& reader = result.outbox_waits[rank][index];
    return !reader || reached(*reader) >= reader->index;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks; ++r) {
      int& next = result.reached[r];
      while (static_cast<std::size_t>(next) < schedule.ranks[r].size() && can_happen(r, next)) {
        result.order.push_back({static_cast<int>(r), next});
        ++next;
        moved = true;
      }
    }
  }
  return result;
}

std::vector<int> assign_outboxes(const Schedule& schedule, const ActionTable& table, int rank,
                                 int outboxes) {
  std::vector<int> assigned;
  int sent = 0;
  for (const std::optional<Place>& reader : readers_of_outboxes(schedule, table, rank)) {
    assigned.push_back(reader ? sent++ % outboxes : -1);
  }
  return assigned;
}

}  // namespace trireme
