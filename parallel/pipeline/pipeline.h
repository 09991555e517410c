#pragma once
#include <deque>
#include <functional>

#include "model/stage/stage.h"
#include "parallel/comm/communicator.h"
#include "parallel/pipeline/schedule.h"

namespace trireme {

// Walks a schedule: receive, compute, send. Activations travel down one
// communicator and gradients up the other, so each is a plain queue in
// micro-batch order and neither can overtake or block the other.
class Pipeline {
 public:
  struct Links {
    Communicator& down;  // this stage's rank in it is its place in the pipeline
    Communicator& up;
  };
  // Inputs of a micro-batch; `x` is filled in here.
  using Load = std::function<Stage::Input(int micro_batch)>;
  // Called on the last stage with the loss of every token [tokens], in order of the schedule.
  using OnLoss = std::function<void(int micro_batch, Tensor loss)>;

  // `keeps` has one arena for each micro-batch in flight. All outlive the pipeline.
  Pipeline(const Stage& stage, Shape boundary, Links links, std::deque<Arena>& keeps,
           Arena& scratch);

  // Leaves every micro-batch's gradients in the stage's parameter store.
  void run(Stream& stream, const Schedule& schedule, const Load& load, const OnLoss& on_loss);
  // Forward alone.
  void evaluate(Stream& stream, int micro_batches, const Load& load, const OnLoss& on_loss);

 private:
  Tensor receive(Stream& stream, Communicator& from, Arena& into, int rank) const;

  const Stage& stage_;
  Shape boundary_;  // [tokens, hidden]: what crosses from stage to stage
  Links links_;
  std::deque<Arena>& keeps_;
  Arena& scratch_;
  std::vector<Stage::Saved> saved_;
};

}  // namespace trireme
