#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/stage/stage.h"
#include "parallel/comm/communicator.h"
#include "parallel/pipeline/observer.h"
#include "parallel/pipeline/rank_plan.h"

namespace trireme {

// Walks this rank's list of a schedule: a receive starts while the action before works
// and is waited for when its tensor is needed; a send starts when its action is done and
// is waited for when its memory is needed. Activations travel in one communicator and
// gradients in another, so that neither can hold the other up, and messages between two
// ranks arrive in the order in which they were sent, which the checker has proved to be
// the order of the receives.
class Pipeline {
 public:
  // This rank's place in each communicator is its place in the pipeline.
  struct Links {
    Communicator& down;  // activations
    Communicator& up;    // gradients
    // A receive starts so many actions before the one that reads. 0 for communicators in
    // which a receive holds back the sends that are started after it.
    int receive_ahead = 1;
  };
  // All outlive the pipeline.
  struct Memory {
    std::deque<Arena>& keeps;  // one for each slot
    Arena& scratch;
    Arena& messages;  // inboxes and outboxes are taken from here, for good
    // One for each slot; empty: the keeps.
    std::vector<BlockMemory*> blocks = {};
    SlotPools pools = {};  // empty: all slots are of one
  };
  // Inputs of a micro-batch; `x` is filled in here.
  using Load = std::function<Stage::Input(int micro_batch)>;
  // Called where the last stage is with the loss of every token [tokens], in order of
  // the micro-batches.
  using OnLoss = std::function<void(int micro_batch, Tensor loss)>;

  // `stages`: this rank's, in order along the model. `boundary` [tokens, hidden] is what
  // crosses from stage to stage. `schedules`: one or more of the same stages, for steps of as many
  // micro-batches as each has.
  Pipeline(std::vector<const Stage*> stages, std::span<const Schedule> schedules, Shape boundary,
           Links links, Memory memory);

  // From here on it walks the schedule with this place in the list; at first the last.
  void follow(std::size_t schedule);

  // Leaves every micro-batch's gradients in the stages' parameter stores.
  void run(Stream& stream, const Load& load, const OnLoss& on_loss);
  // Forward alone, in no more memory.
  void evaluate(Stream& stream, const Load& load, const OnLoss& on_loss);

  // Null for nobody.
  void observe(PipelineObserver* observer) { observer_ = observer; }

 private:
  using What = PipelineObserver::What;
  // A message under way, or done with.
  struct Message {
    Transfer transfer;
    std::optional<PipelineObserver::Event> event;  // while it is under way
  };
  struct Slot {
    Stage::Saved saved;
    Message sent;  // activations
  };
  struct Box {
    Tensor tensor;
    Message message;
  };
  struct Walk {
    const Load& load;
    const OnLoss& on_loss;
    bool training;
  };

  void walk(Stream& stream, const RankPlan& plan, const Walk& walk);
  void take_step(Stream& stream, const RankPlan::Step& step, const Walk& walk);
  Tensor go_forward(Run& run, const RankPlan::Step& step, const Walk& walk);
  Tensor go_back(Run& run, const RankPlan::Step& step);
  Tensor output_of(const RankPlan::Step& step) const;
  void start_receive(Stream& stream, const RankPlan::Step& step);
  void wait(Stream& stream, Message& message);
  const Stage& stage_of(const Action& action) const;
  Communicator& link_of(const Action& action) const;
  void begin(Stream& stream, const PipelineObserver::Event& event);
  void end(Stream& stream, const PipelineObserver::Event& event);

  std::vector<const Stage*> stages_;
  std::vector<int> stage_numbers_;
  int last_stage_;
  Links links_;
  Memory memory_;
  std::vector<RankPlans> plans_;  // by schedule
  std::size_t followed_;
  std::vector<Slot> slots_;
  std::vector<Box> inboxes_, outboxes_;
  PipelineObserver* observer_ = nullptr;
};

}  // namespace trireme
