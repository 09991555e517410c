#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/engine/decoder.h"
#include "trainer/engine/host_state.h"
#include "trainer/engine/step_runner.h"

namespace trireme {

// One rank's training step: gradients of its micro-batches and the optimizer's update. Built once
// on a planning stream to plan its memory, and once to train.
class Engine {
 public:
  // Everything given outlives the engine.
  Engine(const EngineSpec& spec, const RankGroups& groups, Stream& stream, Arenas& arenas);

  // From here on steps have so many micro-batches of this rank: spec().micro_batches, which is the
  // default, or one of spec().fewer_micro_batches. All ranks change in the same step.
  void take_micro_batches(std::int64_t count) { runner_.take_micro_batches(count); }
  // StepRunner's.
  void leave_out_repeats() { runner_.leave_out_repeats(); }
  // The step's inputs: this rank's micro-batches, one after the other, to be filled in.
  data::TokenBatch batch() { return inputs_.batch(runner_.micro_batches()); }
  // The global numbers of this rank's micro-batches in the step.
  MicroBatches micro_batches() const;
  int data_rank() const { return groups_.data->rank(); }

  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  struct StepResult {
    double loss = 0;  // mean over the valid tokens, with the routers' losses
    double grad_norm = 0;
    bool applied = true;  // false: the norm forbade the update, nothing has changed
    std::optional<RouterStats::Result> routers = {};  // of a model with experts
  };
  // The two halves of a step, queued: on a device they are done when loss() or result() returns.
  // `valid_tokens`: of the global batch. `update` counts from 1 over the whole run. Nothing is
  // updated unless the gradients' norm is finite and at most `norm_limit`.
  void queue_gradients(std::int64_t valid_tokens, std::int64_t update);
  double loss();
  // After loss(): of the busiest expert over the mean; nothing without experts.
  std::optional<double> expert_load();
  // Of the step's sequences of this data rank: SequenceShards::pairs_max_over_mean(); nothing
  // without context parallelism.
  std::optional<double> context_balance() const { return context_balance_; }
  void queue_update(double learning_rate, std::int64_t update, double norm_limit = kNoLimit);
  StepResult result();
  // StepLosses'. Neither the norm nor the update is scaled.
  void scale_loss(double factor) { losses_.set_loss_scale(factor); }

  // Collective: the summed loss of the batch's valid tokens.
  double evaluate();
  // Collective: the loss of each token of this rank's part of the batch, [micro_batches * tokens],
  // 0 without a target. Empty on ranks without the last pipeline stage.
  std::vector<double> token_losses();
  // Generates texts of up to spec().sample_length tokens, without collectives. Only after
  // model().finish_publishing().
  Decoder& decoder() { return *decoder_; }

  // StepRunner's.
  void observe(PipelineObserver* observer) { runner_.observe(observer); }

  // What a checkpoint stores, in host memory; download or upload it.
  const HostState& host_state();
  // For the next engine over the same arenas, whose tensors are at the same places.
  std::optional<HostState> take_host_state() { return std::exchange(host_state_, std::nullopt); }
  void give_host_state(std::optional<HostState> state) { host_state_ = std::move(state); }
  ModelState& model() { return model_; }
  const ModelState& model() const { return model_; }
  Stream& stream() { return stream_; }
  const EngineSpec& spec() const { return spec_; }
  const PipelineLayout& layout() const { return layout_; }
  const Schedule& schedule() const { return runner_.schedule(); }  // of the current steps

 private:
  const std::optional<RouterStats::Result>& router_result();  // of a model with experts
  double loss_with(const std::optional<RouterStats::Result>& routers) const;

  const EngineSpec spec_;
  const RankGroups& groups_;
  Stream& stream_;
  const PipelineLayout layout_;
  StepProgress progress_;
  ModelState model_;
  const StepInputs inputs_;
  StepLosses losses_;
  const std::unique_ptr<RouterStats> routers_;        // null: the model has no experts
  std::optional<RouterStats::Result> router_result_;  // of the step, once it is read
  const HostMirror norm_;
  StepRunner runner_;
  std::optional<Decoder> decoder_;
  std::optional<HostState> host_state_;
  double norm_limit_ = kNoLimit;
  std::optional<double> context_balance_;
};

// Gradients alone; returns the loss.
double compute_gradients(Engine& engine, std::int64_t valid_tokens, std::int64_t update = 1);
// The update alone, after them.
Engine::StepResult apply_update(Engine& engine, double learning_rate, std::int64_t update);
// Both.
Engine::StepResult train_step(Engine& engine, double learning_rate, std::int64_t update,
                              std::int64_t valid_tokens);

// The implementation of attention that `tensor_ranks` ranks use, for the run's first lines.
std::string attention_kernels(const EngineSpec& spec, int tensor_ranks, Device device);

}  // namespace trireme
