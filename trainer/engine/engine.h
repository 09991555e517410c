#pragma once
#include <cstdint>

#include "model/stage/stage.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/data/sharded_adamw.h"
#include "parallel/pipeline/pipeline.h"
#include "trainer/engine/memory_plan.h"
#include "trainer/engine/token_batch.h"

namespace trireme {

// What decides the computation of a step and its memory.
struct EngineSpec {
  ModelConfig model;
  DType compute = DType::kF32;
  Recompute recompute = Recompute::kNone;
  std::int64_t seq_len = 0;
  std::int64_t micro_batch = 1;    // sequences in a micro-batch
  std::int64_t micro_batches = 1;  // of this rank in a step
  ShardedAdamW::Options optimizer;
};

// One rank's share of the model with everything a step needs: parameters, stage,
// pipeline, optimizer, and the buffers of a step's tokens. Built once on a
// planning stream to learn its memory, and once for real.
class Engine {
 public:
  // All outlive the engine.
  Engine(const EngineSpec& spec, Stream& stream, Arenas& arenas);

  // What a step reads: this rank's micro-batches one after the other. Fill it, then
  // call train or evaluate.
  TokenBatch batch();

  struct StepResult {
    double loss = 0;  // mean over the valid tokens
    double grad_norm = 0;
  };
  // One optimizer step; `update` counts from 1 over the whole run, `valid_tokens` are
  // those of the global batch. Returns when it is done.
  StepResult train(double learning_rate, std::int64_t update, std::int64_t valid_tokens);
  // The loss summed over the batch's valid tokens; nothing changes.
  double evaluate();

  // The two halves of train, for those who look in between (tests, parity).
  double gradients(std::int64_t valid_tokens);
  double update(double learning_rate, std::int64_t update);

  // Recasts the weights the layers read from the masters, after these were loaded.
  void publish_masters();

  ParamStore& params() { return params_; }
  ShardedAdamW& optimizer() { return *optimizer_; }
  const Stage& stage() const { return stage_; }
  const EngineSpec& spec() const { return spec_; }
  const Schedule& schedule() const { return schedule_; }

 private:
  Stage::Input input(int micro_batch, double scale) const;
  double summed_losses();
  std::int64_t tokens() const { return spec_.micro_batch * spec_.seq_len; }

  EngineSpec spec_;
  Stream& stream_;
  Region region_;
  AttentionCore attention_;
  BlockHooks hooks_;
  SelfCommunicator self_;
  ParamStore params_;
  Stage stage_;
  Schedule schedule_;
  std::optional<ShardedAdamW> optimizer_;
  Tensor ids_, targets_, positions_, document_start_;  // [micro_batches, tokens] I32
  Tensor losses_;                                      // [micro_batches] F64
  std::optional<Pipeline> pipeline_;
};

// What a step of this engine takes and computes, without computing it.
struct EnginePlan {
  MemoryPlan memory;
  Tally issued;  // FLOPs of a step as executed, recomputation included
  Tally useful;  // FLOPs of a step without recomputation
  std::int64_t parameters = 0;
};
EnginePlan plan_engine(const EngineSpec& spec, Device device);

// XXH3-64 of all parameters as float32, in order of their names: equal for equal
// weights whatever the compute dtype, the recomputation or the layout.
std::uint64_t weights_hash(ParamStore& params);

}  // namespace trireme
