#include "parallel/pipeline/rank_plan.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "parallel/pipeline/simulate.h"
#include "parallel/pipeline/slots.h"

namespace trireme {
namespace {

// Allocates numbers from 0 up, the lowest free one first.
class Pool {
 public:
  int take() {
    if (free_.empty()) return count_++;
    const int lowest = free_.top();
    free_.pop();
    return lowest;
  }
  void give_back(int number) { free_.push(number); }
  int count() const { return count_; }

 private:
  std::priority_queue<int, std::vector<int>, std::greater<>> free_;
  int count_ = 0;
};

void settle_ends(RankPlan& plan, const ActionTable& table, int rank) {
  for (RankPlan::Step& step : plan.steps) {
    const auto source = table.source_of(step.action);
    const auto reader = table.reader_of(step.action);
    if (source && source->rank != rank) step.from = source->rank;
    if (reader && reader->rank != rank) step.to = reader->rank;
  }
}

// Assigns inboxes by walking the list in execution order.
void settle_inboxes(RankPlan& plan, const ActionTable& table, int rank, int receive_ahead) {
  Pool pool;
  const int count = static_cast<int>(plan.steps.size());
  std::vector<std::vector<int>> given_back_by(plan.steps.size());  // inboxes, by index
  const auto take = [&](int index) {
    RankPlan::Step& step = plan.steps[index];
    step.inbox = pool.take();
    // Evaluation has no backward that reads it again.
    const auto last = table.last(step.action.stage, step.action.micro_batch);
    given_back_by[last ? last->index : index].push_back(step.inbox);
  };
  int started = 0;
  for (int index = 0; index < count; ++index) {
    for (; started < count && started <= index + receive_ahead; ++started) {
      if (plan.steps[started].from >= 0) take(started);
    }
    RankPlan::Step& step = plan.steps[index];
    if (const auto reader = table.reader_of(step.action); reader && reader->rank == rank) {
      take(reader->index);
      step.own_reader_inbox = plan.steps[reader->index].inbox;
    }
    for (const int inbox : given_back_by[index]) pool.give_back(inbox);
  }
  plan.inboxes = pool.count();
  std::map<std::pair<int, int>, std::pair<int, int>> of_micro_batch;
  const auto inboxes_of = [&](const RankPlan::Step& step) -> std::pair<int, int>& {
    return of_micro_batch.try_emplace({step.action.stage, step.action.micro_batch}, -1, -1)
        .first->second;
  };
  for (const RankPlan::Step& step : plan.steps) {
    if (step.action.kind == Action::Kind::kForward) inboxes_of(step).first = step.inbox;
    if (step.action.kind == Action::Kind::kBackwardInput) inboxes_of(step).second = step.inbox;
  }
  for (RankPlan::Step& step : plan.steps) {
    std::tie(step.forward_inbox, step.split_inbox) = inboxes_of(step);
  }
}

RankPlan plan_list(const Schedule& schedule, int rank, int receive_ahead) {
  RankPlan plan;
  const ActionTable table(schedule);
  const std::vector<int> outboxes =
      assign_outboxes(schedule, table, rank, outboxes_needed(schedule));
  const std::vector<Action>& actions = schedule.ranks[rank];
  for (std::size_t i = 0; i < actions.size(); ++i) {
    RankPlan::Step& step = plan.steps.emplace_back();
    step.action = actions[i];
    step.outbox = outboxes[i];
    plan.outboxes = std::max(plan.outboxes, step.outbox + 1);
  }
  settle_ends(plan, table, rank);
  settle_inboxes(plan, table, rank, receive_ahead);
  return plan;
}

}  // namespace

RankPlans plan_rank(const Schedule& schedule, int rank, int receive_ahead, const SlotPools& pools) {
  RankPlans plans{plan_list(schedule, rank, receive_ahead),
                  plan_list(forward_only(schedule), rank, receive_ahead)};
  const std::vector<Action>& actions = schedule.ranks[rank];
  const std::vector<int> slots = assign_slots(actions, pools);
  std::map<int, int> slot_of_stage;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    plans.training.steps[i].slot = slots[i];
    slot_of_stage.emplace(actions[i].stage, slots[i]);
  }
  for (RankPlan::Step& step : plans.evaluation.steps) {
    step.slot = slot_of_stage.at(step.action.stage);
  }
  return plans;
}

RankPlan without_repeats(const RankPlan& plan) {
  // By stage and micro-batch: of each step what its memory depends on.
  std::map<std::pair<int, int>, std::vector<int>> steps_of;
  std::set<std::pair<int, Action::Kind>> begun;
  for (const RankPlan::Step& step : plan.steps) {
    const Action& action = step.action;
    int code = static_cast<int>(action.kind);
    for (const bool one :
         {begun.insert({action.stage, action.kind}).second, step.inbox >= 0, step.outbox >= 0,
          step.own_reader_inbox >= 0, step.forward_inbox >= 0, step.split_inbox >= 0}) {
      code = 2 * code + (one ? 1 : 0);
    }
    steps_of[{action.stage, action.micro_batch}].push_back(code);
  }
  std::set<std::pair<int, int>> left;
  std::set<std::pair<int, std::vector<int>>> known;
  for (const auto& [which, steps] : steps_of) {
    if (known.emplace(which.first, steps).second) left.insert(which);
  }
  RankPlan without{.steps = {}, .inboxes = plan.inboxes, .outboxes = plan.outboxes};
  std::copy_if(plan.steps.begin(), plan.steps.end(), std::back_inserter(without.steps),
               [&](const RankPlan::Step& step) {
                 return left.contains({step.action.stage, step.action.micro_batch});
               });
  return without;
}

}  // namespace trireme
