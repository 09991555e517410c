#include "parallel/pipeline/slots.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace trireme {

int peak_in_flight(const std::vector<Action>& actions) {
  int now = 0;
  int most = 0;
  for (const Action& action : actions) {
    if (action.kind == Action::Kind::kForward) most = std::max(most, ++now);
    if (action.is_last_of_micro_batch()) --now;
  }
  return most;
}

std::vector<int> peak_in_flight(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const std::vector<Action>& actions : schedule.ranks) {
    peaks.push_back(peak_in_flight(actions));
  }
  return peaks;
}

std::vector<int> assign_slots(const std::vector<Action>& actions) {
  std::deque<int> free;
  for (int slot = 0; slot < peak_in_flight(actions); ++slot) free.push_back(slot);
  std::map<std::pair<int, int>, int> held;  // (stage, micro-batch) -> slot
  std::vector<int> slots;
  for (const Action& action : actions) {
    const std::pair<int, int> which{action.stage, action.micro_batch};
    if (action.kind == Action::Kind::kForward) {
      held[which] = free.front();
      free.pop_front();
    }
    slots.push_back(held.at(which));
    if (action.is_last_of_micro_batch()) free.push_back(slots.back());
  }
  return slots;
}

}  // namespace trireme
