#include "trainer/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/ops/attention.h"
#include "model/ops/elementwise.h"
#include "model/ops/gemm.h"
#include "parallel/pipeline/balance.h"
#include "parallel/pipeline/rank_plan.h"
#include "parallel/pipeline/registry.h"
#include "parallel/tensor/sequence_region.h"
#include "parallel/tensor/tensor_region.h"

namespace trireme {

namespace {

constexpr int kReceiveAhead = 1;
constexpr const char* kEmbedding = "embedding.weight";

std::unique_ptr<Region> region_of(const RankGroups& groups, bool sequence) {
  if (groups.tensor->size() == 1) return std::make_unique<Region>();
  if (sequence) return std::make_unique<SequenceRegion>(*groups.tensor);
  return std::make_unique<TensorRegion>(*groups.tensor);
}

Schedule schedule_of(const EngineSpec& spec, int ranks) {
  return make_schedule(spec.schedule, {.ranks = ranks,
                                       .micro_batches = static_cast<int>(spec.micro_batches),
                                       .virtual_stages = spec.virtual_stages});
}

// In products of a weight with a token's activation; attention has those of its keys. The
// embedding is a copy.
LayerCosts layer_costs(const EngineSpec& spec) {
  const ModelConfig& m = spec.model;
  const std::int64_t query = m.num_attention_heads * m.head_dim;
  const std::int64_t keys = m.num_key_value_heads * m.head_dim;
  const std::int64_t into_mlp = m.activation == ActivationKind::kSwiGlu ? 2 : 1;
  const std::int64_t block = m.hidden_size * (2 * query + 2 * keys) +
                             m.hidden_size * m.intermediate_size * (into_mlp + 1) +
                             query * spec.seq_len;
  return {.blocks = std::vector<double>(static_cast<std::size_t>(m.num_hidden_layers),
                                        static_cast<double>(block)),
          .embedding = 0,
          .head = static_cast<double>(m.hidden_size * m.vocab_size)};
}

std::vector<std::int64_t> divide_layers(const EngineSpec& spec, int stages) {
  if (spec.layers_per_stage.empty()) return balance_blocks(layer_costs(spec), stages);
  return check_blocks_per_stage(spec.layers_per_stage, spec.model.num_hidden_layers, stages);
}

Stage::Spec stage_spec(const EngineSpec& spec, std::int64_t first, std::int64_t end) {
  return {.first_block = first,
          .end_block = end,
          .max_positions = spec.seq_len,
          .recompute = spec.recompute,
          .tied_gradient_apart = spec.micro_batches > 1};
}

}  // namespace

Engine::Engine(const EngineSpec& spec, const RankGroups& groups, Stream& stream, Arenas& arenas)
    : spec_(spec),
      groups_(groups),
      stream_(stream),
      region_(region_of(groups, spec.sequence)),
      progress_(stream.executes() ? groups.ledger : nullptr),
      schedule_(schedule_of(spec, groups.down->size())),
      layers_per_stage_(divide_layers(spec, schedule_.stages)) {
  const std::vector<std::int64_t>& blocks = layers_per_stage_;
  for (const int stage : stages_of_rank(schedule_, groups.down->rank())) {
    const std::int64_t first =
        std::accumulate(blocks.begin(), blocks.begin() + stage, std::int64_t{0});
    const std::int64_t end = first + blocks[static_cast<std::size_t>(stage)];
    stages_.emplace_back(params_, spec.model, stage_spec(spec, first, end),
                         Seams{*region_, attention_}, progress_.hooks_of(first));
  }
  const Stage declares(whole_, spec.model, stage_spec(spec, 0, spec.model.num_hidden_layers),
                       {*region_, attention_}, progress_.hooks_of(0));
  params_.allocate({arenas.weights, arenas.masters, &arenas.gradients}, spec.compute);
  for (Stage& stage : stages_) stage.take_tables(arenas.weights, spec.compute, !stream.executes());
  optimizer_.emplace(params_, whole_,
                     ShardedAdamW::Ranks{*groups.data, *groups.model, groups.ledger},
                     spec.optimizer, arenas.optimizer, arenas.workspace);
  partial_gradients_.emplace(
      params_, std::vector<Communicator*>{groups.tensor.get(), groups.key_value.get()},
      arenas.communication);
  if (spec.model.tie_word_embeddings && groups.ends->size() > 1) {
    for (Weight& weight : params_.weights()) {
      if (weight.parts.front().spec.name == kEmbedding) tied_gradient_ = weight.grad;
    }
  }
  const Shape shape{spec.micro_batches, tokens()};
  ids_ = arenas.data.take(shape, DType::kI32);
  targets_ = arenas.data.take(shape, DType::kI32);
  positions_ = arenas.data.take(shape, DType::kI32);
  document_start_ = arenas.data.take(shape, DType::kI32);
  losses_ = arenas.workspace.take({spec.micro_batches}, DType::kF64);
  inputs_ = {HostMirror(stream, ids_), HostMirror(stream, targets_), HostMirror(stream, positions_),
             HostMirror(stream, document_start_)};
  losses_read_ = HostMirror(stream, losses_);
  norm_read_ = HostMirror(stream, optimizer_->grad_norm());
  std::vector<const Stage*> stages;
  for (const Stage& stage : stages_) stages.push_back(&stage);
  pipeline_.emplace(std::move(stages), schedule_,
                    Shape{region_->own_tokens(tokens()), spec.model.hidden_size},
                    Pipeline::Links{*groups.down, *groups.up, kReceiveAhead},
                    Pipeline::Memory{arenas.activations, arenas.workspace, arenas.communication});
  pipeline_->observe(&progress_);
}

TokenBatch Engine::batch() {
  const auto span = [&](std::size_t i) {
    const Tensor& host = inputs_[i].host();
    return std::span(host.as<std::int32_t>(), static_cast<std::size_t>(host.count()));
  };
  return {
      spec_.micro_batch * spec_.micro_batches, spec_.seq_len, span(0), span(1), span(2), span(3)};
}

const HostState& Engine::host_state() {
  if (!host_state_) host_state_.emplace(stream_, params_, *optimizer_);
  return *host_state_;
}

std::string Engine::attention_kernels() const {
  const ModelConfig& m = spec_.model;
  const std::int64_t ranks = region_->slice().count;
  return ops::attention_kernels(
      stream_.device(),
      {.batch = spec_.micro_batch,
       .seq = spec_.seq_len,
       .heads = {m.num_attention_heads / ranks,
                 std::max<std::int64_t>(m.num_key_value_heads / ranks, 1), m.head_dim},
       .scale = 1 / std::sqrt(static_cast<double>(m.head_dim)),
       .documents = spec_.documents},
      spec_.compute);
}

Stage::Input Engine::input(int micro_batch, double scale) const {
  const auto part = [&](const Tensor& t) { return t.slice(micro_batch * tokens(), tokens()); };
  return {.sequence = {spec_.micro_batch, spec_.seq_len, part(positions_), part(document_start_),
                       spec_.documents},
          .ids = part(ids_),
          .targets = part(targets_),
          .x = {},
          .scale = scale};
}

double Engine::gradients(std::int64_t valid_tokens) {
  const double scale = 1.0 / static_cast<double>(std::max<std::int64_t>(valid_tokens, 1));
  progress_.enter(ledger::Phase::kForward);
  params_.expect_gradients();
  for (const HostMirror& input : inputs_) input.upload(stream_);
  ops::zero(stream_, losses_);
  pipeline_->run(
      stream_, [&](int m) { return input(m, scale); },
      [&](int m, Tensor loss) { ops::sum(stream_, losses_.slice(m, 1), loss); });
  progress_.enter(ledger::Phase::kReduce);
  complete_gradients();
  return summed_losses() * scale;
}

// What other ranks hold of this rank's gradients is added.
void Engine::complete_gradients() {
  params_.require_gradients();
  for (const Stage& stage : stages_) stage.finish_gradients(stream_);
  if (tied_gradient_) groups_.ends->all_reduce(stream_, tied_gradient_, Reduce::kSum);
  partial_gradients_->sum(stream_);
}

double Engine::update(double learning_rate, std::int64_t update) {
  optimizer_->step(stream_, learning_rate, update);
  norm_read_.download(stream_);
  stream_.synchronize();
  if (!stream_.executes()) return 0;
  const Tensor& norm = norm_read_.host();
  return norm.dtype == DType::kF64 ? *norm.as<double>() : *norm.as<float>();
}

Engine::StepResult Engine::train(double learning_rate, std::int64_t update_number,
                                 std::int64_t valid_tokens) {
  const double loss = gradients(valid_tokens);
  return {loss, update(learning_rate, update_number)};
}

double Engine::evaluate() {
  progress_.enter(ledger::Phase::kValidate);
  for (const HostMirror& input : inputs_) input.upload(stream_);
  ops::zero(stream_, losses_);
  pipeline_->evaluate(
      stream_, [&](int m) { return input(m, 1); },
      [&](int m, Tensor loss) { ops::sum(stream_, losses_.slice(m, 1), loss); });
  return summed_losses();
}

// Only the last stage has any; the others have zeros to add.
double Engine::summed_losses() {
  groups_.down->all_reduce(stream_, losses_, Reduce::kSum);
  losses_read_.download(stream_);
  stream_.synchronize();
  if (!stream_.executes()) return 0;
  double total = 0;
  for (std::int64_t m = 0; m < spec_.micro_batches; ++m) {
    total += losses_read_.host().as<double>()[m];
  }
  return total;
}

void Engine::publish_masters() {
  if (!params_.has_masters()) return;
  ops::cast(stream_, params_.values(), params_.masters());
}

EnginePlan plan_engine(const EngineSpec& spec, const RankGroups& groups, Device device) {
  EnginePlan plan;
  const auto walk = [&](const EngineSpec& how, Tally& tally) {
    Stream stream(device, tally);
    const Schedule schedule = schedule_of(how, groups.down->size());
    const int in_flight = plan_rank(schedule, groups.down->rank(), kReceiveAhead).training.slots;
    Arenas arenas = Arenas::unbounded(device, static_cast<std::size_t>(in_flight));
    arenas.buffers = groups.buffer_bytes();
    arenas.products = ops::gemm_workspace_bytes(device);
    Engine engine(how, groups, stream, arenas);
    engine.train(0, 1, 1);
    const MemoryPlan trained = arenas.peaks();
    const Tally of_step = tally;
    engine.evaluate();
    tally = of_step;
    require(arenas.peaks() == trained, "an evaluation takes more memory than a step");
    plan.parameters = 0;
    for (const Weight& weight : engine.whole().weights()) {
      for (const Param& param : weight.parts) plan.parameters += param.spec.shape.count();
    }
    return trained;
  };
  plan.memory = walk(spec, plan.issued);
  EngineSpec direct = spec;
  direct.recompute = Recompute::kNone;
  walk(direct, plan.useful);
  return plan;
}

}  // namespace trireme
