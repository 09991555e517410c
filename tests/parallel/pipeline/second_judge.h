#pragma once
// Another way to tell whether a schedule is sound, to hold the checker against: where the
// checker plays the ranks, this judge writes down every "must be before" as an edge and
// looks for a circle.
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace trireme::test {

class SecondJudge {
 public:
  // Of a schedule with one rank for each stage.
  explicit SecondJudge(const Schedule& schedule) : schedule_(schedule) {
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (const Action& action : schedule.ranks[rank]) {
        home_[action.stage] = static_cast<int>(rank);
      }
    }
  }

  bool finds_it_sound() const {
    return every_action_is_there_once() && micro_batches_are_in_order() && messages_match() &&
           nothing_waits_for_itself();
  }

 private:
  using Kind = Action::Kind;
  enum class Part { kForward, kInput, kWeight };
  using Work = std::tuple<Part, int, int>;  // what, stage, micro-batch

  static std::vector<Work> works_of(const Action& action) {
    const auto work = [&](Part part) { return Work{part, action.stage, action.micro_batch}; };
    if (action.kind == Kind::kForward) return {work(Part::kForward)};
    if (action.kind == Kind::kBackwardInput) return {work(Part::kInput)};
    if (action.kind == Kind::kBackwardWeight) return {work(Part::kWeight)};
    return {work(Part::kInput), work(Part::kWeight)};
  }

  bool every_action_is_there_once() const {
    std::set<Work> done;
    for (const auto& actions : schedule_.ranks) {
      for (const Action& action : actions) {
        for (const Work& work : works_of(action)) {
          const auto [part, stage, micro_batch] = work;
          if (part == Part::kInput && !done.contains({Part::kForward, stage, micro_batch})) {
            return false;
          }
          if (part == Part::kWeight && !done.contains({Part::kInput, stage, micro_batch})) {
            return false;
          }
          if (!done.insert(work).second) return false;
        }
      }
    }
    return done.size() == static_cast<std::size_t>(3 * schedule_.stages * schedule_.micro_batches);
  }

  bool micro_batches_are_in_order() const {
    std::map<std::pair<Part, int>, int> latest;
    for (const auto& actions : schedule_.ranks) {
      for (const Action& action : actions) {
        for (const auto& [part, stage, micro_batch] : works_of(action)) {
          const auto [seen, first] = latest.try_emplace({part, stage}, micro_batch);
          if (!first && micro_batch <= seen->second) return false;
          seen->second = micro_batch;
        }
      }
    }
    return true;
  }

  // Messages from one rank to another carry their receiving work.
  bool messages_match() const {
    std::map<std::tuple<int, int, Part>, std::vector<Work>> sent, received;
    for (const auto& actions : schedule_.ranks) {
      for (const Action& action : actions) {
        for (const auto& [part, stage, micro_batch] : works_of(action)) {
          if (part == Part::kWeight) continue;
          const int step = part == Part::kForward ? 1 : -1;
          const int here = home_.at(stage);
          if (const auto next = home_.find(stage + step); next != home_.end()) {
            sent[{here, next->second, part}].push_back({part, stage + step, micro_batch});
          }
          if (const auto previous = home_.find(stage - step); previous != home_.end()) {
            received[{previous->second, here, part}].push_back({part, stage, micro_batch});
          }
        }
      }
    }
    return sent == received;
  }

  bool nothing_waits_for_itself() const {
    std::map<Work, int> number;  // the action that does the work, counted over all ranks
    std::vector<std::pair<int, int>> before;
    int actions_so_far = 0;
    for (const auto& actions : schedule_.ranks) {
      for (std::size_t i = 0; i < actions.size(); ++i, ++actions_so_far) {
        for (const Work& work : works_of(actions[i])) number[work] = actions_so_far;
        if (i > 0) before.emplace_back(actions_so_far - 1, actions_so_far);
      }
    }
    for (const auto& [work, here] : number) {
      const auto [part, stage, micro_batch] = work;
      if (part == Part::kWeight) continue;
      const int step = part == Part::kForward ? -1 : 1;
      const auto source = number.find({part, stage + step, micro_batch});
      if (source != number.end()) before.emplace_back(source->second, here);
    }
    return has_an_order(static_cast<std::size_t>(actions_so_far), before);
  }

  // Whether a graph of `nodes` has no circle (Kahn 1962).
  static bool has_an_order(std::size_t nodes, const std::vector<std::pair<int, int>>& before) {
    std::vector<std::vector<int>> after(nodes);
    std::vector<int> waits(nodes);
    for (const auto& [first, second] : before) {
      after[first].push_back(second);
      ++waits[second];
    }
    std::deque<int> ready;
    for (std::size_t n = 0; n < nodes; ++n) {
      if (waits[n] == 0) ready.push_back(static_cast<int>(n));
    }
    std::size_t ordered = 0;
    while (!ready.empty()) {
      const int node = ready.front();
      ready.pop_front();
      ++ordered;
      for (const int next : after[node]) {
        if (--waits[next] == 0) ready.push_back(next);
      }
    }
    return ordered == nodes;
  }

  const Schedule& schedule_;
  std::map<int, int> home_;  // stage -> rank
};

}  // namespace trireme::test
