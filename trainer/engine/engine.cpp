#include "trainer/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/ops/attention.h"
#include "model/ops/elementwise.h"
#include "model/ops/gemm.h"
#include "parallel/pipeline/rank_plan.h"
#include "parallel/pipeline/registry.h"
#include "parallel/tensor/sequence_region.h"
#include "parallel/tensor/tensor_region.h"
#include "trainer/engine/divide_layers.h"
#include "trainer/engine/read_values.h"

namespace trireme {

namespace {

constexpr int kReceiveAhead = 1;

std::unique_ptr<Region> region_of(const RankGroups& groups, bool sequence) {
  if (groups.tensor->size() == 1) return std::make_unique<Region>();
  if (sequence) return std::make_unique<SequenceRegion>(*groups.tensor);
  return std::make_unique<TensorRegion>(*groups.tensor);
}

bool puts_weights_off(const Schedule& schedule) {
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (const Action& action : actions) {
      if (action.kind == Action::Kind::kBackwardWeight) return true;
    }
  }
  return false;
}

Schedule schedule_of(const EngineSpec& spec, std::int64_t micro_batches, int ranks) {
  Schedule schedule =
      make_schedule(spec.schedule, {.ranks = ranks,
                                    .micro_batches = static_cast<int>(micro_batches),
                                    .virtual_stages = spec.virtual_stages});
  // A micro-batch's gradients of a layer would be joined by those of the next.
  if ((spec.reproducible || spec.zero >= 2) && puts_weights_off(schedule)) {
    throw on_all_ranks(ConfigError(
        say("parallelism.schedule = \"", spec.schedule,
            "\" puts gradients of weights off, and job.reproducible and zero = 2 and 3 take up "
            "those of one micro-batch after the other; choose another schedule")));
  }
  return schedule;
}

// Of shorter steps, then of full ones.
std::vector<Schedule> schedules_of(const EngineSpec& spec, int ranks) {
  std::vector<Schedule> schedules;
  for (const std::int64_t fewer : spec.fewer_micro_batches) {
    schedules.push_back(schedule_of(spec, fewer, ranks));
  }
  schedules.push_back(schedule_of(spec, spec.micro_batches, ranks));
  return schedules;
}

// Gradients that have a place of their own for each micro-batch are made whole there before the
// next one's begin.
void require_whole_backwards(const EngineSpec& spec, const Schedule& schedule) {
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (const Action& action : actions) {
      if (action.kind != Action::Kind::kBackwardWeight) continue;
      throw ConfigError(say("parallelism.schedule = \"", spec.schedule,
                            "\" puts a part of backwards off, which job.reproducible and "
                            "parallelism.zero = 2 and 3 do not allow; take another schedule"));
    }
  }
}

std::vector<std::int64_t> divide_layers(const EngineSpec& spec, int stages) {
  return trireme::divide_layers(spec.model, spec.seq_len, spec.layers_per_stage, stages);
}

// By the layers of the rank's stages.
SlotPools slot_pools(const EngineSpec& spec, std::span<const Schedule> schedules,
                     const RankGroups& groups) {
  return divide_slots(schedules, groups.down->rank(), divide_layers(spec, schedules.back().stages));
}

// Where the device is the host there is nowhere to go.
Arenas::Offload offload_of(const EngineSpec& spec, const Schedule& schedule,
                           const RankGroups& groups, Device device) {
  if (!device.is_cuda()) return {};
  Arenas::Offload offload{.optimizer = spec.offload_optimizer};
  if (!spec.offload_activations) return offload;
  const std::vector<std::int64_t> layers = divide_layers(spec, schedule.stages);
  for (const int stage : stages_of_rank(schedule, groups.down->rank())) {
    const auto blocks = static_cast<std::size_t>(layers[static_cast<std::size_t>(stage)]);
    offload.in_window = std::max(offload.in_window, std::min(blocks, BlockWindow::kBuffers));
  }
  return offload;
}

}  // namespace

// Tells where the step is, and brings and takes away what data ranks share.
class Engine::Hooks final : public UnitHooks {
 public:
  explicit Hooks(Engine& engine) : engine_(engine) {}
  void before_forward(Stream& stream, int unit) override { use(stream, unit, unit + 1); }
  void before_backward(Stream& stream, int unit) override { use(stream, unit, unit - 1); }
  void before_gradients(Stream& stream, int unit) override {
    engine_.reducer_->before(stream, unit);
  }
  void after_gradients(Stream& stream, int unit) override { engine_.reducer_->after(stream, unit); }

 private:
  void use(Stream& stream, int unit, int next) {
    const std::vector<ParamStore::Unit>& units = engine_.params_.units();
    engine_.progress_.use(units[static_cast<std::size_t>(unit)]);
    // Only of layers, one at a time, is it known that the one before is done with.
    const auto is_layer = [&](int u) {
      return u >= 0 && u < static_cast<int>(units.size()) &&
             units[static_cast<std::size_t>(u)].layer >= 0;
    };
    const bool follows = is_layer(unit) && is_layer(next);
    engine_.gatherer_->before_use(stream, unit, follows ? next : -1);
  }
  Engine& engine_;
};

Sharing Engine::sharing() const {
  const bool shares = groups_.shard->size() > 1;
  const bool own_masters = spec_.compute == accumulator_of(spec_.compute);
  return {.parts = groups_.shard->size(),
          .part = groups_.shard->rank(),
          .bucket = spec_.zero >= 2 && shares ? 0 : spec_.bucket,
          .values = spec_.zero >= 3 && shares,
          .masters = shares && (!own_masters || spec_.zero >= 3),
          .gradients = spec_.zero >= 2 && shares};
}

Engine::Engine(const EngineSpec& spec, const RankGroups& groups, Stream& stream, Arenas& arenas)
    : spec_(spec),
      groups_(groups),
      stream_(stream),
      region_(region_of(groups, spec.sequence)),
      progress_(stream.executes() ? groups.ledger : nullptr),
      schedules_(schedules_of(spec, groups.down->size())),
      followed_(schedules_.size() - 1),
      in_step_(spec.micro_batches),
      layers_per_stage_(divide_layers(spec, schedule().stages)) {
  const std::vector<std::int64_t>& blocks = layers_per_stage_;
  const bool apart = spec.micro_batches > 1 || spec.reproducible || sharing().gradients;
  const auto stage_spec = [&](std::int64_t first, std::int64_t end) {
    return Stage::Spec{.first_block = first,
                       .end_block = end,
                       .max_positions = spec.seq_len,
                       .recompute = spec.recompute,
                       .tied_gradient_apart = apart,
                       .factors = spec.factors};
  };
  if (spec.reproducible || sharing().gradients) require_whole_backwards(spec, schedule());
  hooks_ = std::make_unique<Hooks>(*this);
  for (const int stage : stages_of_rank(schedule(), groups.down->rank())) {
    const std::int64_t first =
        std::accumulate(blocks.begin(), blocks.begin() + stage, std::int64_t{0});
    const std::int64_t end = first + blocks[static_cast<std::size_t>(stage)];
    stages_.emplace_back(params_, spec.model, stage_spec(first, end), Seams{*region_, attention_},
                         *hooks_);
  }
  const Stage declares(whole_, spec.model, stage_spec(0, spec.model.num_hidden_layers),
                       {*region_, attention_}, *hooks_);
  whole_.lay_out({});
  params_.allocate({arenas.weights, arenas.masters, &arenas.gradients}, spec.compute, sharing());
  reducer_.emplace(
      params_, data_ranks(),
      GradientReducer::Options{spec.micro_batches, spec.reproducible, spec.compression},
      arenas.gradients, arenas.communication);
  gatherer_.emplace(params_, *groups.shard, arenas.weights_in_common, arenas.communication);
  for (Stage& stage : stages_) stage.take_tables(arenas.weights, spec.compute, !stream.executes());
  optimizer_.emplace(params_, whole_,
                     ShardedOptimizer::Ranks{*groups.state,
                                             {groups.tensor->rank(), groups.tensor->size()},
                                             {*groups.shard, *groups.tensor},
                                             groups.ledger},
                     spec.optimizer, arenas.optimizer, arenas.workspace);
  partial_gradients_.emplace(
      params_, std::vector<Communicator*>{groups.tensor.get(), groups.key_value.get()},
      arenas.communication);
  if (spec.model.tie_word_embeddings && groups.ends->size() > 1) {
    for (const Weight& weight : params_.weights()) {
      if (weight.parts.front().spec.name != kEmbedding) continue;
      const auto unit = static_cast<std::size_t>(weight.unit);
      const auto bucket = static_cast<std::size_t>(params_.units()[unit].bucket);
      tied_gradient_ =
          params_.own_part(params_.grads(), params_.buckets()[bucket], params_.sharing().gradients);
    }
  }
  const Shape shape{spec.micro_batches, tokens()};
  ids_ = arenas.data.take(shape, DType::kI32);
  targets_ = arenas.data.take(shape, DType::kI32);
  positions_ = arenas.data.take(shape, DType::kI32);
  document_start_ = arenas.data.take(shape, DType::kI32);
  all_losses_ = arenas.workspace.take({groups.data->size(), spec.micro_batches}, DType::kF64);
  losses_ = all_losses_.row_slice(groups.data->rank(), 1).reshaped({spec.micro_batches});
  inputs_ = {HostMirror(stream, ids_), HostMirror(stream, targets_), HostMirror(stream, positions_),
             HostMirror(stream, document_start_)};
  losses_read_ = HostMirror(stream, all_losses_);
  scale_ = HostMirror(stream, arenas.data.take({1}, DType::kF64));
  norm_read_ = HostMirror(stream, optimizer_->grad_norm());
  std::vector<const Stage*> stages;
  for (const Stage& stage : stages_) stages.push_back(&stage);
  pipeline_.emplace(std::move(stages), schedules_,
                    Shape{region_->own_tokens(tokens()), spec.model.hidden_size},
                    Pipeline::Links{*groups.down, *groups.up, kReceiveAhead},
                    Pipeline::Memory{arenas.activations, arenas.workspace, arenas.communication,
                                     blocks_memory(arenas), slot_pools(spec, schedules_, groups)});
  pipeline_->observe(&progress_);
  if (spec.sample_length > 0) {
    decoder_.emplace(stream_, stage(), spec.model.vocab_size, spec.sample_length, arenas.data,
                     arenas.workspace);
  }
}

std::vector<BlockMemory*> Engine::blocks_memory(Arenas& arenas) {
  std::vector<BlockMemory*> memory;
  if (arenas.window.empty()) return memory;
  window_.emplace(arenas.window);
  for (Arena& host : arenas.offloaded) memory.push_back(&offloaded_.emplace_back(*window_, host));
  return memory;
}

void Engine::take_micro_batches(std::int64_t count) {
  const std::vector<std::int64_t>& fewer = spec_.fewer_micro_batches;
  const auto found = std::find(fewer.begin(), fewer.end(), count);
  require(found != fewer.end() || count == spec_.micro_batches, "no step has ", count,
          " micro-batches");
  in_step_ = count;
  followed_ = static_cast<std::size_t>(found - fewer.begin());  // of full steps: the last
  pipeline_->follow(followed_);
}

TokenBatch Engine::batch() {
  const auto span = [&](std::size_t i) {
    return std::span(inputs_[i].host().as<std::int32_t>(),
                     static_cast<std::size_t>(in_step_ * tokens()));
  };
  return {spec_.micro_batch * in_step_, spec_.seq_len, span(0), span(1), span(2), span(3)};
}

const HostState& Engine::host_state() {
  if (!host_state_) host_state_.emplace(stream_, params_, *optimizer_);
  return *host_state_;
}

std::size_t Engine::state_bytes() const {
  std::int64_t bytes = 0;
  for (const ParamStore::Owned& owned : params_.owned()) {
    bytes += owned.count * static_cast<std::int64_t>(size_of(params_.masters().dtype));
  }
  for (const ShardedOptimizer::State& state : optimizer_->states()) {
    for (const ShardedOptimizer::State::Part& part : state.parts) {
      bytes += part.of->count * static_cast<std::int64_t>(size_of(state.flat.dtype));
    }
  }
  return static_cast<std::size_t>(bytes);
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

Stage::Input Engine::input(int micro_batch, Tensor scale) const {
  const auto part = [&](const Tensor& t) { return t.slice(micro_batch * tokens(), tokens()); };
  return {.sequence = {spec_.micro_batch, spec_.seq_len, part(positions_), part(document_start_),
                       spec_.documents},
          .ids = part(ids_),
          .targets = part(targets_),
          .x = {},
          .scale = scale};
}

double Engine::gradients(std::int64_t valid_tokens, std::int64_t update) {
  queue_gradients(valid_tokens, update);
  return loss();
}

void Engine::queue_gradients(std::int64_t valid_tokens, std::int64_t update) {
  if (stream_.executes()) {
    per_token_ = 1.0 / static_cast<double>(std::max<std::int64_t>(valid_tokens, 1));
    *scale_.host().as<double>() = loss_scale_ * per_token_;
  }
  progress_.enter(ledger::Phase::kForward);
  if (const auto graph = graphs_.find(in_step_); graph != graphs_.end() && records()) {
    return graph->second.launch(stream_);
  }
  issue_gradients(update);
  // Once done, a step has chosen its algorithms, and waits for nothing when it is recorded.
  if (records()) graphs_.try_emplace(in_step_, stream_, [&] { issue_gradients(update); });
}

std::string Engine::no_graph_because() const {
  if (!stream_.on_cuda()) return "the run is not on a GPU";
  if (const int ranks = groups_.all->size(); ranks > 1) {
    return say("a step of ", ranks, " ranks waits for messages, which cannot be recorded");
  }
  if (spec_.offload_activations) {
    return "activations go to the host and back on streams of their own";
  }
  return {};
}

bool Engine::records() const {
  return spec_.cuda_graphs && stream_.executes() && !observed_ && no_graph_because().empty();
}

// All that changes from step to step is in memory that it reads.
void Engine::issue_gradients(std::int64_t update) {
  reducer_->begin(in_step_);
  scale_.upload(stream_);
  for (const HostMirror& input : inputs_) input.upload(stream_);
  ops::zero(stream_, losses_);
  pipeline_->run(
      stream_, [&](int m) { return input(m, scale_.tensor()); },
      [&](int m, Tensor loss) { ops::sum(stream_, losses_.slice(m, 1), loss); });
  progress_.enter(ledger::Phase::kReduce);
  complete_gradients(update);
  queue_losses();
}

// What other ranks hold of this rank's gradients is added.
void Engine::complete_gradients(std::int64_t update) {
  reducer_->finish(stream_, update);
  if (tied_gradient_) groups_.ends->all_reduce(stream_, tied_gradient_, Reduce::kSum);
  partial_gradients_->sum(stream_);
}

double Engine::loss() {
  stream_.synchronize();
  return stream_.executes() ? summed_losses() * per_token_ : 0;
}

Engine::Update Engine::update(double learning_rate, std::int64_t update, double norm_limit) {
  queue_update(learning_rate, update, norm_limit);
  stream_.synchronize();
  return updated();
}

void Engine::queue_update(double learning_rate, std::int64_t update, double norm_limit) {
  norm_limit_ = norm_limit;
  optimizer_->step(stream_, learning_rate, update, norm_limit, loss_scale_);
  progress_.enter(ledger::Phase::kPublish);
  gatherer_->publish(stream_);
  norm_read_.download(stream_);
}

// Once the update is done.
Engine::Update Engine::updated() const {
  if (!stream_.executes()) return {};
  const Tensor& held = norm_read_.host();
  const double norm = held.dtype == DType::kF64 ? *held.as<double>() : *held.as<float>();
  return {norm, std::isfinite(norm) && norm <= norm_limit_};
}

Engine::StepResult Engine::result() {
  const double loss_of_step = loss();
  const Update done = updated();
  return {loss_of_step, done.grad_norm, done.applied};
}

Engine::StepResult Engine::train(double learning_rate, std::int64_t update_number,
                                 std::int64_t valid_tokens) {
  queue_gradients(valid_tokens, update_number);
  queue_update(learning_rate, update_number);
  return result();
}

void Engine::evaluate_each(const Pipeline::OnLoss& on_loss) {
  progress_.enter(ledger::Phase::kValidate);
  for (const HostMirror& input : inputs_) input.upload(stream_);
  pipeline_->evaluate(
      stream_, [&](int m) { return input(m, {}); }, on_loss);
}

std::vector<double> Engine::token_losses() {
  std::vector<double> losses;
  evaluate_each([&](int m, Tensor loss) {
    losses.resize(static_cast<std::size_t>(spec_.micro_batches * tokens()));
    const std::vector<double> own = read_values(stream_, loss);
    std::copy(own.begin(), own.end(), losses.begin() + m * tokens());
  });
  stream_.synchronize();
  return losses;
}

double Engine::evaluate() {
  ops::zero(stream_, losses_);
  evaluate_each([&](int m, Tensor loss) { ops::sum(stream_, losses_.slice(m, 1), loss); });
  queue_losses();
  stream_.synchronize();
  return summed_losses();
}

// Only the last stage has any; the others have zeros to add.
void Engine::queue_losses() {
  groups_.down->all_reduce(stream_, losses_, Reduce::kSum);
  groups_.data->all_gather(stream_, all_losses_, losses_);
  losses_read_.download(stream_);
}

// In the order of the step's micro-batches, whoever has computed them.
double Engine::summed_losses() const {
  if (!stream_.executes()) return 0;
  const std::int64_t ranks = groups_.data->size();
  std::vector<double> in_order(static_cast<std::size_t>(ranks * in_step_));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::int64_t own = 0; own < in_step_; ++own) {
      in_order[static_cast<std::size_t>(micro_batches().number(rank, own))] =
          losses_read_.host().as<double>()[rank * spec_.micro_batches + own];
    }
  }
  return std::accumulate(in_order.begin(), in_order.end(), 0.0);
}

void Engine::publish_masters(std::int64_t update) {
  optimizer_->publish_masters(stream_, update);
  gatherer_->publish(stream_);
}

StepPlan plan_step(const EngineSpec& spec, const RankGroups& groups, Device device) {
  StepPlan plan;
  Stream stream(device, plan.issued);
  const std::vector<Schedule> schedules = schedules_of(spec, groups.down->size());
  Arenas arenas = Arenas::unbounded(device, slot_pools(spec, schedules, groups).slots,
                                    offload_of(spec, schedules.back(), groups, device));
  arenas.buffers = groups.buffer_bytes();
  arenas.products = ops::gemm_workspace_bytes(device);
  Engine engine(spec, groups, stream, arenas);
  // A run may begin with its shortest steps, and what it holds is compared after each.
  if (!spec.fewer_micro_batches.empty()) {
    engine.take_micro_batches(spec.fewer_micro_batches.front());
    engine.train(0, 1, 1);
    plan.memory = arenas.peaks();
    engine.take_micro_batches(spec.micro_batches);
  }
  plan.issued = {};
  if (groups.sent) {
    for (auto& [name, sent] : *groups.sent) sent = {};
  }
  engine.train(0, 1, 1);
  if (groups.sent) plan.sent = *groups.sent;
  require(spec.fewer_micro_batches.empty() || arenas.peaks() == plan.memory,
          "a step of fewer micro-batches takes other memory");
  plan.memory = arenas.peaks();
  const Tally of_step = plan.issued;
  engine.evaluate();
  plan.issued = of_step;
  require(arenas.peaks() == plan.memory, "an evaluation takes more memory than a step");
  if (spec.sample_length > 0) {
    engine.decoder().next_logits(0);
    plan.issued = of_step;
    if (!(arenas.peaks() == plan.memory)) {
      throw ConfigError(
          say("validation.sample_freq: to sample a token takes more memory than a "
              "step of ",
              spec.micro_batch * spec.seq_len,
              " tokens a micro-batch; raise training.seq_len or local_batch_size"));
    }
  }
  for (const Weight& weight : engine.whole().weights()) {
    for (const Param& param : weight.parts) plan.parameters += param.spec.shape.count();
  }
  plan.state_bytes = engine.state_bytes();
  plan.stages = stages_of_rank(schedules.back(), groups.down->rank());
  plan.layers_per_stage = engine.layers_per_stage();
  return plan;
}

EnginePlan plan_engine(const EngineSpec& spec, const RankGroups& groups, Device device) {
  EnginePlan plan{plan_step(spec, groups, device), {}};
  EngineSpec direct = spec;
  direct.recompute = Recompute::kNone;
  plan.useful =
      spec.recompute == Recompute::kNone ? plan.issued : plan_step(direct, groups, device).issued;
  return plan;
}

}  // namespace trireme
