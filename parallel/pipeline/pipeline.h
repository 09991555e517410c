#pragma once
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "model/stage/stage.h"
#include "parallel/comm/communicator.h"
#include "parallel/pipeline/action_launcher.h"
#include "parallel/pipeline/observer.h"
#include "parallel/pipeline/rank_plan.h"

namespace trireme {

// Executes this rank's list of a schedule. A receive starts during the preceding action and is
// waited for when its tensor is needed; a send starts after its action and is waited for when its
// buffer is reused. Activations and gradients use separate communicators, so that neither blocks
// the other. Messages between two ranks arrive in the order sent, which the checker has verified to
// be the order of the receives.
class Pipeline {
 public:
  // The rank in each communicator is the pipeline rank.
  struct Links {
    Communicator& down;  // activations
    Communicator& up;    // gradients
    // A receive starts this many actions before its reader. Use 0 for communicators in which a
    // pending receive blocks later sends.
    int receive_ahead = 1;
  };
  // All members outlive the pipeline.
  struct Memory {
    std::deque<Arena>& keeps;  // saved activations, one arena per slot
    Arena& scratch;
    Arena& messages;  // inboxes and outboxes, allocated permanently
    // One per slot; empty: use `keeps`.
    std::vector<BlockMemory*> blocks = {};
    SlotPools pools = {};  // empty: all slots are in one pool
  };
  // Queues what it takes to have the inputs of a micro-batch on the device. In training their
  // addresses depend on the slot only if those of other actions in it shall be equal.
  using Load = std::function<MicroBatch(int micro_batch, int slot)>;
  // Called on the last stage with the loss of every token [tokens], in order of the micro-batches.
  using OnLoss = std::function<void(int micro_batch, Tensor loss)>;

  // `stages` are this rank's stages in model order. `boundary` [tokens, hidden] is the shape of
  // activations between stages. `schedules` are for the same stages; each is for steps with its
  // number of micro-batches.
  Pipeline(std::vector<const Stage*> stages, std::span<const Schedule> schedules, Shape boundary,
           Links links, Memory memory);

  // Selects the schedule at this index; initially the last.
  void follow(std::size_t schedule);

  // For plans of memory alone: from here on run() and evaluate() leave out micro-batches that take
  // no other memory than an earlier one (without_repeats). Their gradients are never complete.
  void leave_out_repeats();

  // Runs one step; the gradients of all micro-batches accumulate in the stages' parameter stores.
  void run(Stream& stream, const Load& load, const OnLoss& on_loss);
  // Runs the forwards only, in at most the same memory.
  void evaluate(Stream& stream, const Load& load, const OnLoss& on_loss);

  // Null removes the observer.
  void observe(PipelineObserver* observer) { observer_ = observer; }
  // Launches the actions of run(); outlives the pipeline.
  void launch_by(ActionLauncher& launcher) { launcher_ = &launcher; }

 private:
  using What = PipelineObserver::What;
  // A pending or completed message.
  struct Message {
    Transfer transfer;
    std::optional<PipelineObserver::Event> event;  // set while it is pending
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
  Tensor launch(ExecContext& ctx, const RankPlan::Step& step, const Walk& walk);
  Tensor go_forward(ExecContext& ctx, const RankPlan::Step& step, const MicroBatch& batch,
                    bool training);
  Tensor go_back(ExecContext& ctx, const RankPlan::Step& step);
  Tensor input_of(const RankPlan::Step& step) const;
  Tensor output_of(const RankPlan::Step& step) const;
  void start_receive(Stream& stream, const RankPlan::Step& step);
  void wait(Stream& stream, Message& message);
  Stage::Saved& saved_of(const RankPlan::Step& step);
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
  // By slot, stage and inboxes: it has addresses of all four.
  std::map<std::array<int, 4>, Stage::Saved> saved_;
  std::vector<Message> sent_;  // activations, by slot
  std::vector<Box> inboxes_, outboxes_;
  PipelineObserver* observer_ = nullptr;
  ActionLauncher plain_;
  ActionLauncher* launcher_ = &plain_;
};

}  // namespace trireme
