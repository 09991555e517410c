#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "model/stage/stage.h"
#include "parallel/context/context_ranks.h"
#include "parallel/data/gradient_reducer.h"
#include "parallel/data/parameter_gatherer.h"
#include "parallel/data/sharded_optimizer.h"
#include "parallel/expert/token_all_to_all.h"
#include "parallel/tensor/partial_gradients.h"
#include "trainer/engine/memory_plan.h"
#include "trainer/engine/pipeline_layout.h"
#include "trainer/engine/router_bias.h"
#include "trainer/engine/step_progress.h"
#include "trainer/engine/whole_model.h"

namespace trireme {

// What a stage calls around the use of a unit (UnitHooks).
struct HookCall {
  enum class Kind : std::uint8_t { kForward, kBackward, kBeforeGradients, kAfterGradients };
  Kind kind;
  int unit;
  bool queues;  // may queue work, or start or wait for a transfer
};
// Receives the calls of work that is captured, which take effect when it is launched.
class HookLog {
 public:
  HookLog() = default;
  HookLog(const HookLog&) = delete;
  HookLog& operator=(const HookLog&) = delete;
  virtual ~HookLog() = default;
  virtual void called(Stream& stream, const HookCall& call) = 0;
};

// A rank's shard of the model: its parameters, the pipeline stages that read them, and what keeps
// them in step with the other ranks' (gradient reduction, optimizer, parameter gather).
class ModelState {
 public:
  // With tied embeddings the first and the last pipeline stage hold this parameter.
  static constexpr const char* kEmbedding = "embedding.weight";

  // `stages`: the blocks of each of this rank's stages. The groups, the arenas and `progress`
  // outlive this.
  ModelState(const EngineSpec& spec, const std::vector<BlockRange>& stages,
             const RankGroups& groups, const Stream& stream, Arenas& arenas,
             StepProgress& progress);
  ~ModelState();

  // Around the backwards of a step with so many micro-batches of this rank. When
  // finish_gradients is done the gradients are sums over all ranks; `update` counts from 1.
  void begin_gradients(std::int64_t micro_batches) {
    params_.expect_codes();
    reducer_->begin(micro_batches);
  }
  void finish_gradients(Stream& stream, std::int64_t update);
  // Before forwards without gradients.
  void begin_evaluation() { params_.expect_codes(); }

  // For captured work. From here on hooks queue nothing and go to the log; null: they take effect.
  void log_hooks(HookLog* log);
  void call(Stream& stream, const HookCall& call);
  // GradientReducer's and ParameterGatherer's.
  int gradient_place(std::int64_t k) const { return reducer_->gradient_place(k); }
  bool is_publishing() const { return gatherer_->is_publishing(); }

  // RouterBias's, after the optimizer's step.
  void update_router_bias(Stream& stream, Tensor counts, double rate) {
    router_bias_->update(stream, counts, optimizer_->grad_scale(), rate);
  }
  // Gathers what the optimizer has updated where this rank holds all weights. Queued;
  // finish_publishing waits for it.
  void publish(Stream& stream) { gatherer_->publish(stream); }
  void finish_publishing() { gatherer_->finish(); }
  // Makes the weights from the masters that `update` updates left, after these were loaded.
  // Collective.
  void publish_masters(Stream& stream, std::int64_t update = 0);

  // Of the micro-batches whose forwards follow.
  void set_recompute(Recompute recompute) {
    for (Stage& stage : stages_) stage.set_recompute(recompute);
  }
  // This rank's stages, ascending.
  std::vector<const Stage*> stages() const;
  // Of a rank that has the whole model in one stage.
  const Stage& stage() const;
  const Region& region() const { return *region_; }
  // Most rounds in which a layer's experts took a micro-batch's rows since the last call.
  std::int64_t take_expert_rounds() { return exchange_ ? exchange_->take_most_rounds() : 1; }

  ParamStore& params() { return params_; }
  const ParamStore& params() const { return params_; }
  // Declares all parameters of the model; holds none.
  const ParamStore& whole() const { return whole_->params(); }
  ShardedOptimizer& optimizer() { return *optimizer_; }
  const ShardedOptimizer& optimizer() const { return *optimizer_; }
  const GradientCompression& compression() const { return reducer_->compression(); }
  // Bytes of masters and optimizer state that this rank owns, which a checkpoint stores; and of
  // those that no lower rank owns too.
  std::size_t checkpoint_bytes() const;
  std::size_t unique_checkpoint_bytes() const;

 private:
  class Hooks;
  template <class Counts>
  std::size_t checkpoint_bytes_if(const Counts& counts) const;
  void declare(const EngineSpec& spec, const std::vector<BlockRange>& stages, Device device);
  void allocate(const EngineSpec& spec, Arenas& arenas, bool planning);
  Tensor tied_gradient() const;
  Sharing sharing(const EngineSpec& spec) const;

  const RankGroups& groups_;
  const std::unique_ptr<Region> region_;
  const std::unique_ptr<AttentionCore> attention_;
  std::optional<ContextRanks> sequence_;   // if ranks divide sequences
  std::optional<TokenAllToAll> exchange_;  // with expert parallelism
  std::shared_ptr<const WholeModel> whole_;
  ParamStore params_;
  const std::unique_ptr<Hooks> hooks_;
  std::deque<Stage> stages_;
  std::optional<GradientReducer> reducer_;
  std::optional<ParameterGatherer> gatherer_;
  std::optional<ShardedOptimizer> optimizer_;
  std::optional<PartialGradients> partial_gradients_;
  std::optional<RouterBias> router_bias_;
  Tensor tied_gradient_;  // the owned part, on the first and last stage, when tied
};

}  // namespace trireme
