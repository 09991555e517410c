#include "trainer/engine/engine.h"

#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "model/ops/elementwise.h"

namespace trireme {

Engine::Engine(const EngineSpec& spec, Stream& stream, Arenas& arenas)
    : spec_(spec),
      stream_(stream),
      stage_(params_, spec.model,
             {.first_block = 0,
              .end_block = spec.model.num_hidden_layers,
              .max_positions = spec.seq_len,
              .recompute = spec.recompute},
             {region_, attention_}, hooks_),
      schedule_(one_forward_one_backward(0, 1, static_cast<int>(spec.micro_batches))) {
  stage_.allocate({arenas.weights, arenas.masters, &arenas.gradients}, spec.compute,
                  !stream.executes());
  optimizer_.emplace(params_, self_, spec.optimizer, arenas.optimizer, arenas.workspace);
  const Shape shape{spec.micro_batches, tokens()};
  ids_ = arenas.data.take(shape, DType::kI32);
  targets_ = arenas.data.take(shape, DType::kI32);
  positions_ = arenas.data.take(shape, DType::kI32);
  document_start_ = arenas.data.take(shape, DType::kI32);
  losses_ = arenas.workspace.take({spec.micro_batches}, DType::kF64);
  pipeline_.emplace(stage_, Shape{tokens(), spec.model.hidden_size}, Pipeline::Links{self_, self_},
                    arenas.activations, arenas.workspace);
}

TokenBatch Engine::batch() {
  const auto span = [](const Tensor& t) {
    return std::span(t.as<std::int32_t>(), static_cast<std::size_t>(t.count()));
  };
  return {spec_.micro_batch * spec_.micro_batches,
          spec_.seq_len,
          span(ids_),
          span(targets_),
          span(positions_),
          span(document_start_)};
}

Stage::Input Engine::input(int micro_batch, double scale) const {
  const auto part = [&](const Tensor& t) { return t.slice(micro_batch * tokens(), tokens()); };
  return {.sequence = {spec_.micro_batch, spec_.seq_len, part(positions_), part(document_start_)},
          .ids = part(ids_),
          .targets = part(targets_),
          .x = {},
          .scale = scale};
}

double Engine::gradients(std::int64_t valid_tokens) {
  const double scale = 1.0 / static_cast<double>(std::max<std::int64_t>(valid_tokens, 1));
  params_.expect_gradients();
  pipeline_->run(
      stream_, schedule_, [&](int m) { return input(m, scale); },
      [&](int m, Tensor loss) { ops::sum(stream_, losses_.slice(m, 1), loss); });
  params_.require_gradients();
  return summed_losses() * scale;
}

double Engine::update(double learning_rate, std::int64_t update) {
  optimizer_->step(stream_, learning_rate, update);
  stream_.synchronize();
  if (!stream_.executes()) return 0;
  const Tensor norm = optimizer_->grad_norm();
  return norm.dtype == DType::kF64 ? *norm.as<double>() : *norm.as<float>();
}

Engine::StepResult Engine::train(double learning_rate, std::int64_t update_number,
                                 std::int64_t valid_tokens) {
  const double loss = gradients(valid_tokens);
  return {loss, update(learning_rate, update_number)};
}

double Engine::evaluate() {
  pipeline_->evaluate(
      stream_, static_cast<int>(spec_.micro_batches), [&](int m) { return input(m, 1); },
      [&](int m, Tensor loss) { ops::sum(stream_, losses_.slice(m, 1), loss); });
  return summed_losses();
}

double Engine::summed_losses() {
  stream_.synchronize();
  if (!stream_.executes()) return 0;
  double total = 0;
  for (std::int64_t m = 0; m < spec_.micro_batches; ++m) total += losses_.as<double>()[m];
  return total;
}

void Engine::publish_masters() {
  if (!params_.has_masters()) return;
  ops::cast(stream_, params_.values(), params_.masters());
}

EnginePlan plan_engine(const EngineSpec& spec, Device device) {
  EnginePlan plan;
  const auto walk = [&](const EngineSpec& how, Tally& tally) {
    Stream stream(device, tally);
    Arenas arenas = Arenas::unbounded(device, 1);
    Engine engine(how, stream, arenas);
    engine.train(0, 1, 1);
    const MemoryPlan trained = arenas.peaks();
    const Tally of_step = tally;
    engine.evaluate();
    tally = of_step;
    require(arenas.peaks() == trained, "an evaluation takes more memory than a step");
    plan.parameters = engine.params().parameter_count();
    return trained;
  };
  plan.memory = walk(spec, plan.issued);
  EngineSpec direct = spec;
  direct.recompute = Recompute::kNone;
  walk(direct, plan.useful);
  return plan;
}

std::uint64_t weights_hash(ParamStore& params) {
  std::vector<const Param*> all;
  for (const Weight& weight : params.weights()) {
    for (const Param& param : weight.parts) all.push_back(&param);
  }
  std::sort(all.begin(), all.end(),
            [](const Param* a, const Param* b) { return a->spec.name < b->spec.name; });
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  std::vector<float> line;
  for (const Param* param : all) {
    XXH3_64bits_update(state, param->spec.name.data(), param->spec.name.size());
    const Tensor& master = param->master;
    if (master.dtype == DType::kF32) {
      XXH3_64bits_update(state, master.data, master.bytes());
      continue;
    }
    line.assign(master.as<double>(), master.as<double>() + master.count());
    XXH3_64bits_update(state, line.data(), line.size() * sizeof(float));
  }
  const std::uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash;
}

}  // namespace trireme
