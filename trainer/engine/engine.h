#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/device/graph.h"
#include "model/stage/offloaded_blocks.h"
#include "model/stage/stage.h"
#include "parallel/data/gradient_reducer.h"
#include "parallel/data/parameter_gatherer.h"
#include "parallel/data/sharded_optimizer.h"
#include "parallel/pipeline/pipeline.h"
#include "parallel/pipeline/simulate.h"
#include "parallel/tensor/partial_gradients.h"
#include "trainer/engine/decoder.h"
#include "trainer/engine/host_state.h"
#include "trainer/engine/memory_plan.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/step_progress.h"
#include "trainer/engine/token_batch.h"

namespace trireme {

// What decides the computation of a step and its memory.
struct EngineSpec {
  ModelConfig model;
  DType compute = DType::kF32;
  Factors factors = Factors::kAsStored;  // of the blocks' linear layers
  Recompute recompute = Recompute::kNone;
  std::int64_t seq_len = 0;
  bool documents = true;                               // false: no batch masks documents
  std::int64_t micro_batch = 1;                        // sequences in a micro-batch
  std::int64_t micro_batches = 1;                      // of this rank in a step
  std::vector<std::int64_t> fewer_micro_batches = {};  // in shorter steps, rising
  std::string schedule = "1F1B";
  int virtual_stages = 1;
  std::vector<std::int64_t> layers_per_stage = {};  // empty: balanced
  bool sequence = false;                            // sequence parallelism
  int zero = 1;                                     // what data ranks share out: ZeRO stage
  std::int64_t bucket = Sharing::kWholeStore;       // gradients reduced at once, elements
  bool cuda_graphs = false;   // the gradients' work is recorded once and replayed, where it can be
  bool reproducible = false;  // one tree of sums whatever the data ranks and stages
  CompressionOptions compression = {};  // of the gradients' sums over replicas
  // To pinned memory of the host, from a GPU; on the CPU neither has an effect.
  bool offload_activations = false;
  bool offload_optimizer = false;
  std::int64_t sample_length = 0;  // of text, in tokens, at most; 0: there is none
  ShardedOptimizer::Options optimizer;
};

// One rank's share of the model with everything a step needs: parameters, stage,
// pipeline, optimizer, and the buffers of a step's tokens. Built once on a
// planning stream to learn its memory, and once for real.
class Engine {
 public:
  // What the pipeline's ends both hold of a model that ties its head to it.
  static constexpr const char* kEmbedding = "embedding.weight";

  // All outlive the engine.
  Engine(const EngineSpec& spec, const RankGroups& groups, Stream& stream, Arenas& arenas);

  // The steps from here on have so many micro-batches of this rank: spec().micro_batches, which
  // is what an engine begins with, or one of spec().fewer_micro_batches. Those of a step follow
  // from its number alone, so that all ranks change together.
  void take_micro_batches(std::int64_t count);
  // What a step reads: this rank's micro-batches one after the other. Fill it, then
  // call train or evaluate.
  TokenBatch batch();
  // Which of the step's micro-batches these are.
  MicroBatches micro_batches() const {
    return {groups_.data->size(), in_step_, params_.sharing().gradients};
  }
  int data_rank() const { return groups_.data->rank(); }

  struct StepResult {
    double loss = 0;  // mean over the valid tokens
    double grad_norm = 0;
    bool applied = true;  // false: nothing has changed, the gradients' norm forbade it
  };
  // One optimizer step; `update` counts from 1 over the whole run, `valid_tokens` are
  // those of the global batch. Returns when it is done.
  StepResult train(double learning_rate, std::int64_t update, std::int64_t valid_tokens);
  // The loss summed over the batch's valid tokens; nothing changes.
  double evaluate();
  // The same, token by token: those of this rank's part of the batch, [micro_batches * tokens],
  // 0 where there is nothing to predict. Collective; empty on ranks without the model's end.
  std::vector<double> token_losses();

  // Continues texts with the weights as they are, of spec's sample_length. Only after
  // finish_publishing; no collective.
  Decoder& decoder() { return *decoder_; }

  // What the loss is multiplied by before its gradients are computed, so that float16 holds small
  // ones; a power of two, which costs no rounding. Norms and updates are without it.
  void scale_loss(double factor) { loss_scale_ = factor; }

  // The two halves of train, for those who look in between (tests, parity).
  double gradients(std::int64_t valid_tokens, std::int64_t update = 1);
  // Nothing changes unless the norm is finite and at most `norm_limit`.
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  struct Update {
    double grad_norm = 0;
    bool applied = true;
  };
  Update update(double learning_rate, std::int64_t update, double norm_limit = kNoLimit);
  // The same, queued: on a device they are done when loss(), or result(), returns, which waits
  // for them.
  void queue_gradients(std::int64_t valid_tokens, std::int64_t update);
  double loss();
  void queue_update(double learning_rate, std::int64_t update, double norm_limit = kNoLimit);
  StepResult result();

  // Whose kernels compute this rank's attention, for people.
  std::string attention_kernels() const;

  // Why the gradients' work cannot be recorded and replayed; empty where it can.
  std::string no_graph_because() const;

  // Told what the pipeline does in training and evaluation; null for nobody. Work that is
  // observed is not replayed.
  void observe(PipelineObserver* observer) {
    observed_ = observer != nullptr;
    progress_.pass_on_to(observer);
  }

  // Makes the weights the layers read from the masters, after these were loaded, as `update`
  // updates left them. Collective.
  void publish_masters(std::int64_t update = 0);
  // Returns when the weights of the last update are this rank's, too, where it has them whole.
  void finish_publishing() { gatherer_->finish(); }

  // What a checkpoint keeps, for loading and storing; download or upload it.
  const HostState& host_state();
  // Of what it keeps, the bytes that this rank owns.
  std::size_t state_bytes() const;
  // Fills the parameters as ParamStore::initialize does.
  void initialize(std::uint64_t seed) { params_.initialize(seed); }
  Stream& stream() { return stream_; }

  ParamStore& params() { return params_; }
  const ParamStore& whole() const { return whole_; }
  const GradientCompression& compression() const { return reducer_->compression(); }
  ShardedOptimizer& optimizer() { return *optimizer_; }
  // Of a rank that has them all in one.
  const Stage& stage() const {
    require(stages_.size() == 1, "this rank has ", stages_.size(), " stages");
    return stages_.front();
  }
  const EngineSpec& spec() const { return spec_; }
  // Of the steps that it takes now.
  const Schedule& schedule() const { return schedules_[followed_]; }
  const std::vector<std::int64_t>& layers_per_stage() const { return layers_per_stage_; }

 private:
  Stage::Input input(int micro_batch, Tensor scale) const;
  void issue_gradients(std::int64_t update);
  bool records() const;
  void complete_gradients(std::int64_t update);
  void evaluate_each(const Pipeline::OnLoss& on_loss);
  void queue_losses();
  double summed_losses() const;
  Update updated() const;
  class Hooks;
  Sharing sharing() const;
  std::vector<BlockMemory*> blocks_memory(Arenas& arenas);
  DataRanks data_ranks() const { return {*groups_.shard, *groups_.replicate}; }
  std::int64_t tokens() const { return spec_.micro_batch * spec_.seq_len; }

  EngineSpec spec_;
  const RankGroups& groups_;
  Stream& stream_;
  std::unique_ptr<Region> region_;
  AttentionCore attention_;
  StepProgress progress_;
  ParamStore whole_;  // all of the model's parameters, declared only
  ParamStore params_;
  std::vector<Schedule> schedules_;  // the last of full steps, before it those of shorter ones
  std::size_t followed_;             // of these
  std::int64_t in_step_;             // micro-batches of this rank
  std::vector<std::int64_t> layers_per_stage_;
  std::deque<Stage> stages_;  // this rank's, in order along the model
  std::unique_ptr<UnitHooks> hooks_;
  std::optional<GradientReducer> reducer_;
  std::optional<ParameterGatherer> gatherer_;
  std::optional<ShardedOptimizer> optimizer_;
  std::optional<PartialGradients> partial_gradients_;
  Tensor tied_gradient_;  // the own part of it, on the pipeline's ends, when tied
  Tensor ids_, targets_, positions_, document_start_;  // [micro_batches, tokens] I32
  Tensor losses_, all_losses_;        // [micro_batches] F64, and [data ranks, micro_batches]
  std::array<HostMirror, 4> inputs_;  // of the four, in this order
  HostMirror losses_read_, norm_read_;
  std::optional<HostState> host_state_;
  std::optional<BlockWindow> window_;
  std::deque<OffloadedBlocks> offloaded_;  // a micro-batch in flight each
  std::optional<Pipeline> pipeline_;
  std::optional<Decoder> decoder_;
  HostMirror scale_;      // [1] F64, of the step's losses before their gradients
  double per_token_ = 1;  // of the step's losses
  double loss_scale_ = 1;
  std::map<std::int64_t, Graph> graphs_;  // of issue_gradients, by micro-batches in the step
  bool observed_ = false;
  double norm_limit_ = kNoLimit;
};

// What a step of this engine takes and computes, without computing it.
struct StepPlan {
  MemoryPlan memory;
  Tally issued;                 // FLOPs of a full step as executed, recomputation too
  std::int64_t parameters = 0;  // of the whole model
  std::size_t state_bytes = 0;  // what a checkpoint keeps of what this rank owns
  std::vector<int> stages;      // of this rank, along the model
  std::vector<std::int64_t> layers_per_stage;  // of all stages
  Traffic sent;                                // in a full step, where the groups are only planned
};
StepPlan plan_step(const EngineSpec& spec, const RankGroups& groups, Device device);

struct EnginePlan : StepPlan {
  Tally useful;  // FLOPs of a step without recomputation
};
EnginePlan plan_engine(const EngineSpec& spec, const RankGroups& groups, Device device);

}  // namespace trireme
