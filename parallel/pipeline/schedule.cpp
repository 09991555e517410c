#include "parallel/pipeline/schedule.h"

#include <algorithm>
#include <ostream>

#include "model/base/error.h"

namespace trireme {

char letter_of(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::kForward:
      return 'F';
    case Action::Kind::kBackward:
      return 'B';
    case Action::Kind::kBackwardInput:
      return 'I';
    case Action::Kind::kBackwardWeight:
      return 'W';
  }
  return '?';
}

std::ostream& operator<<(std::ostream& out, const Action& action) {
  return out << action.stage << letter_of(action.kind) << action.micro_batch;
}

Schedule forward_only(const Schedule& schedule) {
  Schedule forwards = schedule;
  for (std::vector<Action>& actions : forwards.ranks) {
    std::erase_if(actions, [](const Action& a) { return a.kind != Action::Kind::kForward; });
  }
  return forwards;
}

bool defers_weight_gradients(const Schedule& schedule) {
  const auto defers = [](const Action& action) {
    return action.kind == Action::Kind::kBackwardWeight;
  };
  return std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [&](const auto& actions) {
    return std::any_of(actions.begin(), actions.end(), defers);
  });
}

std::vector<int> ranks_of_stages(const Schedule& schedule) {
  std::vector<int> ranks(schedule.stages, -1);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Action& action : schedule.ranks[rank]) {
      ranks.at(action.stage) = static_cast<int>(rank);
    }
  }
  return ranks;
}

std::vector<int> stages_of_rank(const Schedule& schedule, int rank) {
  std::vector<int> stages;
  for (const Action& action : schedule.ranks.at(rank)) {
    stages.push_back(action.stage);
  }
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

}  // namespace trireme
