#include "trainer/config/missing_features.h"

#include <cctype>

namespace trireme {
namespace {

struct Feature {
  std::string_view pattern;  // of keys; a leading or trailing * matches anything
  std::string_view why;
};

constexpr std::string_view kMoe = "this mixture-of-experts setting is not supported yet";
constexpr std::string_view kDropout =
    "dropout is set by training.attention_dropout, residual_dropout and embedding_dropout";
constexpr std::string_view kFineTuning =
    "fine-tuning with adapters is not implemented: Trireme pretrains";

constexpr Feature kFeatures[] = {
    {"num_experts*", kMoe},
    {"n_experts*", kMoe},
    {"moe_*", kMoe},
    {"*_moe", kMoe},
    {"expert_*", kMoe},
    {"router_*", kMoe},
    {"*dropout*", kDropout},
    {"*_pdrop", kDropout},
    {"lora*", kFineTuning},
    {"peft*", kFineTuning},
    {"multi_latent_attention", "multi-head latent attention is not implemented yet"},
    {"mtp_*", "multi-token prediction is not implemented yet"},
    {"context_parallel*", "context parallelism is set by parallelism.context"},
    {"cp*", "context parallelism is set by parallelism.context and parallelism.context_method"},
    {"label_smoothing*", "label smoothing is not implemented"},
    {"z_loss*",
     "the z-loss is set by training.z_loss, that of routers by model.router_z_loss_coef"},
    {"fp4*", "4-bit floating point is not implemented"},
    {"fp8*", "this float8 recipe is not implemented; see training.dtype = \"float8\""},
    {"float8*", "this float8 recipe is not implemented; see training.dtype = \"float8\""},
    {"fsdp*", "for FSDP set parallelism.zero = 3 and parallelism.data_shard"},
    {"hybrid_*", "hybrid and state-space models are not implemented"},
    {"is_hybrid_model", "hybrid and state-space models are not implemented"},
    {"mamba_*", "hybrid and state-space models are not implemented"},
    {"compile*", "not needed: all kernels are compiled ahead of time"},
    {"torch_compile*", "not needed: all kernels are compiled ahead of time"},
    {"deepspeed*", "DeepSpeed is not used; for ZeRO set parallelism.zero"},
    {"epochs", "set the length of the run by training.steps or training.tokens"},
    {"num_epochs", "set the length of the run by training.steps or training.tokens"},
    {"num_train_epochs", "set the length of the run by training.steps or training.tokens"},
    {"wandb*",
     "Weights & Biases is not supported; use metrics.jsonl or TensorBoard "
     "(metrics.enable_tensorboard)"},
    {"use_wandb",
     "Weights & Biases is not supported; use metrics.jsonl or TensorBoard "
     "(metrics.enable_tensorboard)"},
    {"*flash_att*", "not needed: attention is always computed without storing its matrix"},
    {"rotary_percent", "partial rotary embeddings are set by model.partial_rotary_factor"},
    {"rotary_interleaved", "the order of rotary pairs follows from model.model_type"},
    {"rope_interleaved", "the order of rotary pairs follows from model.model_type"},
};

bool matches(std::string_view pattern, std::string_view name) {
  const bool from_any = pattern.starts_with('*');
  const bool to_any = pattern.ends_with('*');
  if (from_any) pattern.remove_prefix(1);
  if (to_any) pattern.remove_suffix(1);
  if (from_any && to_any) return name.find(pattern) != std::string_view::npos;
  if (from_any) return name.ends_with(pattern);
  return to_any ? name.starts_with(pattern) : name == pattern;
}

}  // namespace

std::string missing_feature(std::string_view key) {
  std::string name(key.substr(key.rfind('.') + 1));
  for (char& c : name) {
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const std::string section = "." + std::string(key.substr(0, key.rfind('.') + 1));
  if (section.find(".moe_config.") != std::string::npos) return std::string(kMoe);
  for (const Feature& feature : kFeatures) {
    if (matches(feature.pattern, name)) return std::string(feature.why);
  }
  return {};
}

}  // namespace trireme
