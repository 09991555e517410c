#include "trainer/engine/engine.h"

#include <algorithm>
#include <cmath>

#include "model/device/profile_range.h"
#include "model/ops/attention.h"
#include "model/ops/gemm.h"
#include "model/tensor/host_tensor.h"

namespace trireme {
namespace {

std::int64_t input_slots(const EngineSpec& spec, const RankGroups& groups, const Stream& stream,
                         const PipelineLayout& layout) {
  const bool graphs =
      spec.job.cuda_graphs && no_graph_because(spec, groups, stream.device()).empty();
  return graphs ? layout.slots.count() : 0;
}

StepInputs::Size input_size(const EngineSpec& spec, const RankGroups& groups, const Stream& stream,
                            const PipelineLayout& layout) {
  const Communicator& context = *groups.context;
  StepInputs::Size size{spec.micro_batches,
                        spec.training.local_batch_size,
                        spec.training.seq_len / (divides_sequences(spec) ? context.size() : 1),
                        spec.data.document_mask,
                        input_slots(spec, groups, stream, layout),
                        spec.training.dropout.any()};
  if (context.size() > 1) size.shards = SequenceShards::size(spec, context);
  return size;
}

}  // namespace

Engine::Engine(const EngineSpec& spec, const RankGroups& groups, Stream& stream, Arenas& arenas)
    : spec_(spec),
      groups_(groups),
      stream_(stream),
      layout_(spec, groups),
      progress_(stream.executes() ? groups.recorder : nullptr),
      model_(spec_, layout_.blocks(), groups, stream, arenas, progress_),
      inputs_(stream, arenas.data, input_size(spec, groups, stream, layout_)),
      losses_(groups, stream,
              {spec.micro_batches, divides_sequences(spec) ? 1 : groups.context->size()},
              arenas.data, arenas.workspace),
      routers_(spec.model.num_experts == 0
                   ? nullptr
                   : std::make_unique<RouterStats>(groups, stream, spec, arenas.workspace)),
      norm_(stream, model_.optimizer().grad_norm()),
      runner_(spec_, groups, layout_, stream, arenas,
              {model_, inputs_, losses_, routers_.get(), progress_}) {
  if (spec.sample_length == 0) return;
  decoder_.emplace(stream, model_.stage(),
                   Decoder::Size{.vocab = spec.model.vocab_size, .capacity = spec.sample_length},
                   arenas.data, arenas.workspace);
}

MicroBatches Engine::micro_batches() const {
  return {groups_.data->size(), runner_.micro_batches(), model_.params().sharing().gradients};
}

const HostState& Engine::host_state() {
  if (!host_state_) host_state_.emplace(stream_, model_.params(), model_.optimizer());
  return *host_state_;
}

void Engine::queue_gradients(std::int64_t valid_tokens, std::int64_t update) {
  router_result_.reset();
  const MicroBatches all = micro_batches();
  losses_.set_tokens(valid_tokens,
                     all.ranks * all.of_each * inputs_.whole_tokens_per_micro_batch());
  runner_.queue_gradients(update);
  if (const SequenceShards* const shards = inputs_.shards()) {
    context_balance_ = shards->pairs_max_over_mean();
  }
}

double Engine::loss() {
  stream_.synchronize();
  return loss_with(router_result());
}

std::optional<double> Engine::expert_load() {
  const std::optional<RouterStats::Result>& routers = router_result();
  return routers ? std::optional(routers->max_over_mean()) : std::nullopt;
}

double Engine::loss_with(const std::optional<RouterStats::Result>& routers) const {
  const double loss = losses_.mean(micro_batches());
  if (!routers) return loss;
  return loss + spec_.model.router_aux_loss_coef * routers->balance_loss +
         spec_.model.router_z_loss_coef * routers->z_loss;
}

const std::optional<RouterStats::Result>& Engine::router_result() {
  if (routers_ && !router_result_) {
    router_result_ = routers_->result(micro_batches(), inputs_.whole_tokens_per_micro_batch());
  }
  return router_result_;
}

void Engine::queue_update(double learning_rate, std::int64_t update, double norm_limit) {
  norm_limit_ = norm_limit;
  {
    const ProfileRange range(stream_, "optimizer");
    model_.optimizer().step(stream_, learning_rate, update, norm_limit, losses_.loss_scale());
    const double rate = spec_.model.router_bias_update_rate;
    if (routers_ && rate > 0) model_.update_router_bias(stream_, routers_->counts(), rate);
  }
  progress_.enter(flight::Phase::kPublish);
  {
    const ProfileRange range(stream_, "publish");
    model_.publish(stream_);
  }
  norm_.download(stream_);
}

Engine::StepResult Engine::result() {
  stream_.synchronize();
  StepResult result;
  result.routers = router_result();
  result.loss = loss_with(result.routers);
  if (!stream_.executes()) return result;
  if (groups_.all->size() > 1) ops::end_gemm_timing(stream_);
  const Tensor& norm = norm_.host();
  result.grad_norm = norm.dtype == DType::kF64 ? *norm.as<double>() : *norm.as<float>();
  result.applied = std::isfinite(result.grad_norm) && result.grad_norm <= norm_limit_;
  return result;
}

double Engine::evaluate() {
  losses_.clear();
  runner_.evaluate([&](int m, Tensor loss) { losses_.add(m, loss); });
  losses_.gather();
  stream_.synchronize();
  return losses_.sum(micro_batches());
}

std::vector<double> Engine::token_losses() {
  const std::int64_t tokens = inputs_.tokens_per_micro_batch();
  std::vector<double> losses;
  runner_.evaluate([&](int m, Tensor loss) {
    losses.resize(spec_.micro_batches * tokens);
    const std::vector<double> own = read_losses(stream_, loss);
    std::copy(own.begin(), own.end(), losses.begin() + m * tokens);
  });
  stream_.synchronize();
  const SequenceShards* const shards = inputs_.shards();
  if (!shards || !shards->divided() || losses.empty()) return losses;
  std::vector<double> of_ranks(losses.size() * groups_.context->size());
  Stream host;
  groups_.context->all_gather(host, host_tensor(std::span(of_ranks)),
                              host_tensor(std::span(losses)));
  return shards->in_order(of_ranks);
}

double compute_gradients(Engine& engine, std::int64_t valid_tokens, std::int64_t update) {
  engine.queue_gradients(valid_tokens, update);
  return engine.loss();
}

Engine::StepResult apply_update(Engine& engine, double learning_rate, std::int64_t update) {
  engine.queue_update(learning_rate, update);
  return engine.result();
}

Engine::StepResult train_step(Engine& engine, double learning_rate, std::int64_t update,
                              std::int64_t valid_tokens) {
  engine.queue_gradients(valid_tokens, update);
  return apply_update(engine, learning_rate, update);
}

std::string attention_kernels(const EngineSpec& spec, int tensor_ranks, Device device) {
  const ModelConfig& m = spec.model;
  const std::int64_t key_value_heads = m.num_key_value_heads / tensor_ranks;
  // Of the first layer.
  const std::int64_t layer_window = layer_configs(m).front().window;
  const std::int64_t window = layer_window < spec.training.seq_len ? layer_window : 0;
  return ops::attention_kernels(device,
                                {.batch = spec.training.local_batch_size,
                                 .seq = spec.training.seq_len,
                                 .heads = {m.num_attention_heads / tensor_ranks,
                                           std::max<std::int64_t>(key_value_heads, 1), m.head_dim},
                                 .scale = m.attention_scale(),
                                 .masked = spec.data.document_mask || window > 0,
                                 .window = window,
                                 .soft_cap = m.attn_logit_softcapping},
                                spec.compute);
}

}  // namespace trireme
