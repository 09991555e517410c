// Runs a tiny model of one family through our layers and writes what they
// computed for compare.py to judge; README.md beside this file defines the folder.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/base/file.h"
#include "model/base/philox.h"
#include "model/params/init.h"
#include "model/stage/model_family.h"
#include "tests/parity/tensor_file.h"
#include "trainer/convert/huggingface/config_json.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/step_plan.h"

namespace trireme {
namespace {

using nlohmann::json;
using parity::TensorFile;

constexpr std::int64_t kSequences = 4;  // two micro-batches of two: accumulation is part of it
constexpr std::int64_t kLength = 24;
constexpr std::int64_t kSteps = 20;

ModelConfig gpt2() {
  ModelConfig m = find_family("gpt2").defaults;
  m.vocab_size = 101;
  m.hidden_size = 40;
  m.intermediate_size = 160;
  m.num_hidden_layers = 2;
  m.num_attention_heads = m.num_key_value_heads = 5;
  m.head_dim = 8;
  m.max_position_embeddings = 48;
  return m;
}

// Heads whose width is not hidden / heads, and layers of each kind that a family has.
ModelConfig rotary(const std::string& name) {
  ModelConfig m = find_family(name).defaults;
  m.vocab_size = 89;
  m.hidden_size = 36;
  m.intermediate_size = 72;
  m.num_hidden_layers = 3;
  m.num_attention_heads = 4;
  m.num_key_value_heads = 2;
  m.head_dim = 16;
  m.max_position_embeddings = 64;
  if (name == "llama") {
    m.vocab_size = 97;
    m.hidden_size = 48;
    m.num_attention_heads = 6;
    m.head_dim = 8;
    // Stretched, blended and kept frequencies all occur among the four pairs.
    m.rope_scaling = {
        .type = RopeScaling::Type::kLlama3, .factor = 8, .original_max_position_embeddings = 128};
    m.max_position_embeddings = 512;
  }
  if (name == "qwen2") m.head_dim = 9 * 2;
  if (m.sliding_window > 0 || name == "mistral") m.sliding_window = 7;
  if (name == "smollm3") m.num_hidden_layers = 4;
  if (name == "phi3") {
    // transformers counts its factors by hidden / heads. Texts are longer than the original length.
    m.max_position_embeddings = 8;
    m.hidden_size = 48;
    m.head_dim = 12;
    m.partial_rotary_factor = 0.5;
    m.rope_scaling = {.type = RopeScaling::Type::kLongRope,
                      .original_max_position_embeddings = 4,
                      .short_factor = {1, 1.5, 2},
                      .long_factor = {1.25, 2.5, 7}};
  }
  if (name == "granite") {
    m.embedding_multiplier = 3;
    m.attention_multiplier = 0.3;
    m.residual_multiplier = 0.5;
    m.logits_scaling = 2.5;
  }
  if (name == "olmo3") {
    m.num_hidden_layers = 4;
    m.rope_scaling = {.type = RopeScaling::Type::kYarn,
                      .factor = 4,
                      .original_max_position_embeddings = 16,
                      .beta_fast = 8};
  }
  if (name == "gemma2") {
    m.query_pre_attn_scalar = 24;
    m.attn_logit_softcapping = 3;
    m.final_logit_softcapping = 2;
  }
  if (m.num_experts > 0) {
    m.intermediate_size = name == "qwen3_moe" || name == "glm4_moe" ? 40 : 0;
    m.moe_intermediate_size = 20;
    m.num_experts = 5;
    m.num_experts_per_tok = name == "olmoe" ? 3 : 2;
    m.router_aux_loss_coef = 0.1;
  }
  if (name == "qwen3_moe") {
    m.mlp_only_layers = {1};
    m.router_z_loss_coef = 0.02;
  }
  if (name == "gpt_oss") {
    m.swiglu_limit = 1.5;  // clamps some
    m.rope_scaling = {.type = RopeScaling::Type::kYarn,
                      .factor = 4,
                      .original_max_position_embeddings = 16,
                      .beta_fast = 8,
                      .truncate = false};
  }
  if (name == "glm4_moe") {
    m.qk_norm = true;
    m.num_experts = 9;
    m.num_experts_per_tok = 3;
    m.n_group = 3;
    m.topk_group = 2;
    m.n_shared_experts = 2;
    m.routed_scaling_factor = 1.5;
    m.router_z_loss_coef = 0.02;
    m.router_bias_update_rate = 0.01;
  }
  if (name == "olmoe") m.head_dim = 9 * 2;
  if (name == "gemma3_text") {
    m.query_pre_attn_scalar = 24;
    m.layer_types = {LayerType::kSlidingAttention, LayerType::kSlidingAttention,
                     LayerType::kFullAttention};
    m.rope_scaling = {.type = RopeScaling::Type::kLinear, .factor = 8};
  }
  return m;
}

// Away from the initial weights, so that no mistake hides in a zero or a one.
double noisy(const ParamSpec& spec, double gain, double noise) {
  const std::string& name = spec.name;
  if (name.ends_with("norm.weight")) return gain + 0.2 * noise;
  if (spec.is_buffer) return static_cast<float>(0.2 * noise);
  if (spec.shape.rank() == 1) return 0.2 * noise;
  if (name == "embedding.weight" || name == "position.weight") return 0.5 * noise;
  return noise / std::sqrt(static_cast<double>(spec.shape[1]));
}

void disturb(Engine& engine, std::uint64_t seed) {
  const double gain = 1 - engine.spec().model.norm_gain_offset;
  for (Weight& weight : engine.model().params().weights()) {
    for (Param& param : weight.parts) {
      const ElementInit normal(Init::kNormal, 1, seed, "parity/" + param.spec.name);
      std::vector<float> noise(param.master.count());
      normal.fill(0, noise);
      for (std::size_t i = 0; i < noise.size(); ++i) {
        const double value = noisy(param.spec, gain, noise[i]);
        if (param.master.dtype == DType::kF64) {
          param.master.as<double>()[i] = value;
        } else {
          param.master.as<float>()[i] = static_cast<float>(value);
        }
      }
    }
  }
  engine.model().publish_masters(engine.stream());
}

// The documents of a sequence, as their first tokens.
std::vector<std::int64_t> cuts(bool documents, std::uint64_t key, std::int64_t row) {
  std::vector<std::int64_t> starts{0};
  if (!documents) return starts;
  for (std::int64_t at = 0; at + 2 < kLength;) {
    at += 1 + philox(key, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(at))[3] % 9;
    if (at < kLength) starts.push_back(at);
  }
  return starts;
}

std::int64_t fill(Engine& engine, std::uint64_t seed, std::int64_t step, bool documents) {
  const data::TokenBatch batch = engine.batch();
  const std::uint64_t key = random_key(seed, say("parity/batch/", step));
  const auto vocab = static_cast<std::uint32_t>(engine.spec().model.vocab_size);
  std::int64_t valid = 0;
  for (std::int64_t row = 0; row < kSequences; ++row) {
    const std::vector<std::int64_t> starts = cuts(documents, key, row);
    const auto token = [&](std::int64_t t) {
      return static_cast<std::int32_t>(
          philox(key, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(t))[0] % vocab);
    };
    std::size_t document = 0;
    for (std::int64_t t = 0; t < kLength; ++t) {
      if (document + 1 < starts.size() && t == starts[document + 1]) ++document;
      const bool ends = document + 1 < starts.size() && t + 1 == starts[document + 1];
      const std::int64_t at = row * kLength + t;
      batch.ids[at] = token(t);
      batch.targets[at] = ends ? -1 : token(t + 1);
      batch.positions[at] = static_cast<std::int32_t>(t - starts[document]);
      batch.document_start[at] = static_cast<std::int32_t>(starts[document]);
      valid += !ends;
    }
  }
  return valid;
}

json rows(std::span<const std::int32_t> values) {
  json all = json::array();
  for (std::int64_t row = 0; row < kSequences; ++row) {
    all.push_back(std::vector<std::int32_t>(values.begin() + row * kLength,
                                            values.begin() + (row + 1) * kLength));
  }
  return all;
}

json batch_json(Engine& engine) {
  const data::TokenBatch batch = engine.batch();
  return {{"ids", rows(batch.ids)},
          {"targets", rows(batch.targets)},
          {"positions", rows(batch.positions)},
          {"document_start", rows(batch.document_start)}};
}

// Logits of every token through the key-value cache, document by document: what
// generation computes is held against the reference, too.
void add_logits(Engine& engine, Stream& stream, TensorFile& file) {
  const ModelConfig& model = engine.spec().model;
  const data::TokenBatch batch = engine.batch();
  Arena all(std::size_t{8} << 20);
  Arena keep(std::size_t{8} << 20);
  Arena scratch(std::size_t{8} << 20);
  const Tensor logits = all.take({kSequences, kLength, model.vocab_size}, engine.spec().compute);
  const std::vector<KeyValueCache> caches = engine.model().stage().make_caches(all, kLength, 1);
  for (std::int64_t at = 0; at < kSequences * kLength; ++at) {
    const Arena::Frame frame(keep);
    ExecContext ctx{stream, keep, scratch};
    const Tensor ids = keep.take({1}, DType::kI32);
    const Tensor positions = keep.take({1}, DType::kI32);
    *ids.as<std::int32_t>() = batch.ids[at];
    *positions.as<std::int32_t>() = batch.positions[at];
    const Tensor row =
        engine.model().stage().decode(ctx, ids, positions, batch.positions[at], caches);
    const Tensor into = logits.slice(at * model.vocab_size, model.vocab_size);
    std::copy_n(row.data, row.bytes(), into.data);
  }
  file.add("logits", logits);
}

json train(Engine& engine, std::uint64_t seed, bool documents) {
  const OptimizerOptions& how = engine.spec().optimizer;
  const double peak = 1e-3;
  LrScheduleOptions schedule;
  schedule.name = "cosine";
  schedule.warmup_steps = 5;
  schedule.min_lr_factor = 0.1;
  json curve = {{"optimizer",
                 {{"lr", peak},
                  {"beta1", how.beta1},
                  {"beta2", how.beta2},
                  {"eps", how.eps},
                  {"weight_decay", how.weight_decay}}},
                {"micro_batch_tokens", engine.spec().training.local_batch_size * kLength},
                {"max_norm", engine.spec().training.max_norm},
                {"schedule",
                 {{"name", schedule.name},
                  {"warmup_steps", schedule.warmup_steps},
                  {"steps", kSteps},
                  {"min_lr_factor", schedule.min_lr_factor}}},
                {"batches", json::array()},
                {"losses", json::array()},
                {"grad_norms", json::array()},
                {"learning_rates", json::array()}};
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const std::int64_t valid = fill(engine, seed, step, documents);
    const double rate = learning_rate(schedule, peak, step, kSteps);
    curve["batches"].push_back(batch_json(engine));
    const Engine::StepResult result = train_step(engine, rate, step, valid);
    curve["losses"].push_back(result.loss);
    curve["grad_norms"].push_back(result.grad_norm);
    curve["learning_rates"].push_back(rate);
  }
  return curve;
}

void dump(const ModelConfig& model, std::uint64_t seed, DType dtype, Recompute recompute,
          bool documents, const std::filesystem::path& folder) {
  EngineSpec spec;
  spec.model = model;
  spec.data.document_mask = true;
  spec.training.seq_len = kLength;
  spec.training.local_batch_size = 2;
  spec.activation_checkpoint.mode = recompute;
  spec.compute = dtype;
  spec.micro_batches = kSequences / 2;
  const RankGroups alone;
  const EnginePlan plan = plan_engine(spec, alone, {});
  Stream stream;
  Arenas arenas(plan.memory, {});
  Engine engine(spec, alone, stream, arenas);
  disturb(engine, seed);

  make_folders(folder);
  TensorFile file;
  const std::int64_t valid = fill(engine, seed, 0, documents);
  const json batch = batch_json(engine);
  add_logits(engine, stream, file);
  Arena one(Arena::kAlignment);
  const Tensor loss = one.take({1}, DType::kF64);
  *loss.as<double>() = compute_gradients(engine, valid);
  file.add("loss", loss.reshaped({}));
  for (const Weight& weight : engine.model().params().weights()) {
    for (const Param& param : weight.parts) {
      file.add("weight/" + param.spec.name, param.master);
      file.add("gradient/" + param.spec.name, param.grad);
    }
  }
  const json curve = train(engine, seed, documents);
  file.write(folder);
  auto config = config_json(model, dtype, special_tokens({}, -1));
  if (model.num_experts > 0) {
    config["output_router_logits"] = true;  // adds the routers' loss
    // What transformers does not have.
    config["router_aux_loss_coef"] = model.router_aux_loss_coef;
    config["router_z_loss_coef"] = model.router_z_loss_coef;
    config["router_bias_update_rate"] = model.router_bias_update_rate;
  }
  replace_text(folder / "config.json", config.dump(1));
  replace_text(folder / "batch.json", batch.dump());
  replace_text(folder / "curve.json", curve.dump());
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using trireme::DType;
  using trireme::Recompute;
  CLI::App app("Dumps what our layers compute on a tiny model");
  std::string family;
  std::string dtype = "float32";
  std::string recompute = "none";
  std::uint64_t seed = 0;
  bool documents = false;
  std::filesystem::path output;
  app.add_option("--family", family)->required()->check(CLI::IsMember(trireme::model_types()));
  app.add_option("--seed", seed);
  app.add_option("--dtype", dtype)->check(CLI::IsMember({"float32", "float64"}));
  app.add_option("--recompute", recompute)->check(CLI::IsMember(trireme::kRecomputeNames));
  app.add_flag("--document-mask", documents);
  app.add_option("--output", output)->required();
  CLI11_PARSE(app, argc, argv);
  const auto mode = std::ranges::find(trireme::kRecomputeNames, recompute);
  try {
    trireme::dump(family == "gpt2" ? trireme::gpt2() : trireme::rotary(family), seed,
                  dtype == "float64" ? DType::kF64 : DType::kF32,
                  static_cast<Recompute>(mode - trireme::kRecomputeNames.begin()), documents,
                  output);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parity_dump: %s\n", error.what());
    return 1;
  }
  return 0;
}
