#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "model/stage/offloaded_blocks.h"
#include "parallel/pipeline/pipeline.h"
#include "trainer/engine/model_state.h"
#include "trainer/engine/router_stats.h"
#include "trainer/engine/step_graphs.h"
#include "trainer/engine/step_inputs.h"
#include "trainer/engine/step_losses.h"

namespace trireme {

// Runs a step's micro-batches through the pipeline, forward and backward or forward only.
class StepRunner {
 public:
  struct Parts {
    ModelState& model;
    const StepInputs& inputs;
    StepLosses& losses;
    RouterStats* routers;  // null: the model has no experts
    StepProgress& progress;
  };
  // Everything given outlives the runner.
  StepRunner(const EngineSpec& spec, const RankGroups& groups, const PipelineLayout& layout,
             Stream& stream, Arenas& arenas, Parts parts);

  // From here on steps have so many micro-batches of this rank: spec.micro_batches, which is the
  // default, or one of spec.fewer_micro_batches.
  void take_micro_batches(std::int64_t count);
  std::int64_t micro_batches() const { return in_step_; }
  const Schedule& schedule() const { return layout_.schedules[followed_]; }

  // Pipeline's, if no activations are offloaded: their copies depend on what was there before.
  void leave_out_repeats();

  // Receives the pipeline's events in training and evaluation; may be null.
  void observe(PipelineObserver* observer) { parts_.progress.pass_on_to(observer); }

  // Queued: gradients and losses of the micro-batches, summed over all ranks.
  void queue_gradients(std::int64_t update);
  void evaluate(const Pipeline::OnLoss& on_loss);

 private:
  Pipeline::Memory pipeline_memory(Arenas& arenas);
  void prepare();

  const EngineSpec& spec_;
  const PipelineLayout& layout_;
  Stream& stream_;
  const Parts parts_;
  const bool uses_graphs_;
  const bool has_peers_;
  const std::size_t largest_gradient_;  // in bytes
  std::size_t followed_;                // of the layout's schedules
  std::int64_t in_step_;                // micro-batches of this rank
  std::optional<BlockWindow> window_;
  std::deque<OffloadedBlocks> offloaded_;  // one for each micro-batch in flight
  Pipeline pipeline_;
  StepGraphs graphs_;
};

}  // namespace trireme
