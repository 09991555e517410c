#include "parallel/pipeline/pipeline.h"

#include <algorithm>
#include <utility>

#include "model/device/profile_range.h"
#include "model/ops/elementwise.h"
#include "parallel/pipeline/check.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

// For a profiler, which shows the micro-batch too.
const char* range_of(Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return "forward";
    case Kind::kBackward:
      return "backward";
    case Kind::kBackwardInput:
      return "backward of inputs";
    case Kind::kBackwardWeight:
      break;
  }
  return "backward of weights";
}

}  // namespace

Pipeline::Pipeline(std::vector<const Stage*> stages, std::span<const Schedule> schedules,
                   Shape boundary, Links links, Memory memory)
    : stages_(std::move(stages)),
      stage_numbers_(stages_of_rank(schedules.back(), links.down.rank())),
      last_stage_(schedules.back().stages - 1),
      links_(links),
      memory_(std::move(memory)),
      followed_(schedules.size() - 1) {
  if (memory_.pools.slots.empty()) {
    const std::vector<std::int64_t> equal(schedules.back().stages, 1);
    memory_.pools = divide_slots(schedules, links.down.rank(), equal);
  }
  int inboxes = 0, outboxes = 0;
  for (const Schedule& schedule : schedules) {
    const std::string wrong = complaint(schedule);
    require(wrong.empty(), wrong);
    require(links.down.size() == static_cast<int>(schedule.ranks.size()) &&
                links.up.size() == links.down.size() && links.up.rank() == links.down.rank(),
            "a schedule for ", schedule.ranks.size(), " ranks in a pipeline of ",
            links.down.size());
    require(stages_of_rank(schedule, links.down.rank()) == stage_numbers_,
            "schedules with different stages on this rank");
    plans_.push_back(plan_rank(schedule, links.down.rank(), links.receive_ahead, memory_.pools));
    const auto& [training, evaluation] = plans_.back();
    inboxes = std::max({inboxes, training.inboxes, evaluation.inboxes});
    outboxes = std::max({outboxes, training.outboxes, evaluation.outboxes});
  }
  sent_.resize(memory_.pools.count());
  require(stages_.size() == stage_numbers_.size(), "a schedule for ", stage_numbers_.size(),
          " stages on this rank, which has ", stages_.size());
  require(memory_.keeps.size() == sent_.size(), "memory for ", memory_.keeps.size(),
          " micro-batches in flight, of ", sent_.size());
  require(memory_.blocks.empty() || memory_.blocks.size() == sent_.size(), "blocks' memory for ",
          memory_.blocks.size(), " micro-batches in flight, of ", sent_.size());
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    require(stages_[i]->is_first() == (stage_numbers_[i] == 0) &&
                stages_[i]->is_last() == (stage_numbers_[i] == last_stage_),
            "stage ", stage_numbers_[i], " does not match its position in the schedule");
  }
  const auto take = [&](std::vector<Box>& boxes, int count) {
    boxes.resize(count);
    for (Box& box : boxes) box.tensor = memory_.messages.take(boundary, stages_.front()->compute());
  };
  take(inboxes_, inboxes);
  take(outboxes_, outboxes);
}

void Pipeline::follow(std::size_t schedule) {
  require(schedule < plans_.size(), "a pipeline of ", plans_.size(), " schedules has no number ",
          schedule);
  followed_ = schedule;
}

void Pipeline::leave_out_repeats() {
  for (auto& [training, evaluation] : plans_) {
    training = without_repeats(training);
    evaluation = without_repeats(evaluation);
  }
}

void Pipeline::run(Stream& stream, const Load& load, const OnLoss& on_loss) {
  walk(stream, plans_[followed_].training, {load, on_loss, true});
}

void Pipeline::evaluate(Stream& stream, const Load& load, const OnLoss& on_loss) {
  walk(stream, plans_[followed_].evaluation, {load, on_loss, false});
}

void Pipeline::walk(Stream& stream, const RankPlan& plan, const Walk& walk) {
  std::size_t started = 0;
  for (std::size_t index = 0; index < plan.steps.size(); ++index) {
    const std::size_t end = std::min(plan.steps.size(), index + 1 + links_.receive_ahead);
    for (; started < end; ++started) start_receive(stream, plan.steps[started]);
    take_step(stream, plan.steps[index], walk);
  }
  for (Message& sent : sent_) wait(stream, sent);
  for (Box& box : outboxes_) wait(stream, box.message);
}

void Pipeline::take_step(Stream& stream, const RankPlan::Step& step, const Walk& walk) {
  Message& sent = sent_[step.slot];
  const bool forward = step.action.kind == Kind::kForward;
  if (forward) wait(stream, sent);
  if (step.outbox >= 0) wait(stream, outboxes_[step.outbox].message);
  if (step.inbox >= 0) wait(stream, inboxes_[step.inbox].message);

  const PipelineObserver::Event work{What::kAction, step.action, -1};
  ExecContext ctx{.stream = stream,
                  .saved = memory_.keeps[step.slot],
                  .scratch = memory_.scratch,
                  .deferred = nullptr,
                  .blocks = memory_.blocks.empty() ? nullptr : memory_.blocks[step.slot]};
  begin(stream, work);
  const Tensor output = [&] {
    const ProfileRange range(stream, range_of(step.action.kind), step.action.micro_batch);
    return launch(ctx, step, walk);
  }();
  end(stream, work);
  if (step.to < 0) return;
  Message& message = step.outbox >= 0 ? outboxes_[step.outbox].message : sent;
  message.event = {What::kSend, step.action, step.to};
  begin(stream, *message.event);
  message.transfer = link_of(step.action).start_send(stream, output, step.to);
}

// The action's output for another rank or stage, empty if there is none.
Tensor Pipeline::launch(ExecContext& ctx, const RankPlan::Step& step, const Walk& walk) {
  if (step.action.kind != Kind::kForward) {
    return launcher_->launch(ctx.stream, step, ctx.saved, [&] { return go_back(ctx, step); });
  }
  const MicroBatch batch = walk.load(step.action.micro_batch, step.slot);
  const auto compute = [&] { return go_forward(ctx, step, batch, walk.training); };
  const Tensor output =
      walk.training ? launcher_->launch(ctx.stream, step, ctx.saved, compute) : compute();
  if (step.action.stage != last_stage_) return output;
  walk.on_loss(step.action.micro_batch, output);
  return {};
}

Tensor Pipeline::go_forward(ExecContext& ctx, const RankPlan::Step& step, const MicroBatch& batch,
                            bool training) {
  const Arena::Frame frame(ctx.scratch);
  ctx.saved.reset();
  const Tensor x = input_of(step);
  const Stage& stage = stage_of(step.action);
  const Tensor made =
      training ? stage.forward(ctx, batch, x, saved_of(step)) : stage.evaluate(ctx, batch, x);
  if (step.action.stage == last_stage_) return made;
  const Tensor output = output_of(step);
  if (!output) return made;
  ops::copy(ctx.stream, output, made);
  return output;
}

Tensor Pipeline::go_back(ExecContext& ctx, const RankPlan::Step& step) {
  const Arena::Frame frame(ctx.scratch);
  const Stage& stage = stage_of(step.action);
  Stage::Saved& saved = saved_of(step);
  if (step.action.kind == Kind::kBackwardWeight) {
    stage.backward_weight(ctx, saved);
    return {};
  }
  const Tensor dy = input_of(step);
  const Tensor dx = output_of(step);
  return step.action.kind == Kind::kBackward ? stage.backward(ctx, dy, saved, dx)
                                             : stage.backward_input(ctx, dy, saved, dx);
}

// What a step receives; empty at the ends of the pipeline.
Tensor Pipeline::input_of(const RankPlan::Step& step) const {
  return step.inbox >= 0 ? inboxes_[step.inbox].tensor : Tensor{};
}

// Output buffer of a step; empty if the output may stay in its slot.
Tensor Pipeline::output_of(const RankPlan::Step& step) const {
  if (step.outbox >= 0) return outboxes_[step.outbox].tensor;
  if (step.own_reader_inbox >= 0) return inboxes_[step.own_reader_inbox].tensor;
  return {};
}

void Pipeline::start_receive(Stream& stream, const RankPlan::Step& step) {
  if (step.from < 0) return;
  Box& box = inboxes_[step.inbox];
  box.message.event = {What::kReceive, step.action, step.from};
  begin(stream, *box.message.event);
  box.message.transfer = link_of(step.action).start_receive(stream, box.tensor, step.from);
}

void Pipeline::wait(Stream& stream, Message& message) {
  if (!message.event) return;
  const PipelineObserver::Event under_way = *std::exchange(message.event, std::nullopt);
  const PipelineObserver::Event waiting{What::kWait, under_way.action, under_way.peer};
  begin(stream, waiting);
  message.transfer.wait();
  end(stream, waiting);
  end(stream, under_way);
}

Stage::Saved& Pipeline::saved_of(const RankPlan::Step& step) {
  return saved_[{step.slot, step.action.stage, step.forward_inbox, step.split_inbox}];
}

const Stage& Pipeline::stage_of(const Action& action) const {
  const auto found = std::lower_bound(stage_numbers_.begin(), stage_numbers_.end(), action.stage);
  return *stages_[found - stage_numbers_.begin()];
}

Communicator& Pipeline::link_of(const Action& action) const {
  return action.kind == Kind::kForward ? links_.down : links_.up;
}

void Pipeline::begin(Stream& stream, const PipelineObserver::Event& event) {
  if (observer_) observer_->begin(stream, event);
}

void Pipeline::end(Stream& stream, const PipelineObserver::Event& event) {
  if (observer_) observer_->end(stream, event);
}

}  // namespace trireme
