#include "trainer/config/missing_features.h"

#include <cctype>

namespace trireme {
namespace {

struct Feature {
  std::string_view pattern;  // of keys; a * at an end stands for anything
  std::string_view why;
};

constexpr std::string_view kMoe = "mixture of experts is not built yet";
constexpr std::string_view kDropout = "dropout is not built: set it to 0";
constexpr std::string_view kFineTuning = "fine-tuning by adapters is not built: this pretrains";

constexpr Feature kFeatures[] = {
    {"num_experts*", kMoe},
    {"n_experts*", kMoe},
    {"moe_*", kMoe},
    {"*_moe", kMoe},
    {"expert_*", kMoe},
    {"num_local_experts", kMoe},
    {"n_routed_experts", kMoe},
    {"router_aux_loss_coef", kMoe},
    {"*dropout*", kDropout},
    {"*_pdrop", kDropout},
    {"lora*", kFineTuning},
    {"peft*", kFineTuning},
    {"multi_latent_attention", "multi-head latent attention is not built yet"},
    {"mtp_*", "multi-token prediction is not built yet"},
    {"sliding_window*", "sliding-window attention is not built yet"},
    {"window_size", "sliding-window attention is not built yet"},
    {"context_parallel*", "context parallelism is not built yet"},
    {"cp", "context parallelism is not built yet"},
    {"label_smoothing*", "label smoothing is not built"},
    {"z_loss*", "the z-loss is not built"},
    {"fp4*", "4-bit floating point is not built"},
    {"fp8*", "this recipe of float8 is not built; training.dtype = \"float8\" is another"},
    {"float8*", "this recipe of float8 is not built; training.dtype = \"float8\" is another"},
    {"fsdp*", "FSDP is parallelism.zero = 3 over parallelism.data_shard ranks"},
    {"hybrid_*", "hybrid and state-space models are not built"},
    {"is_hybrid_model", "hybrid and state-space models are not built"},
    {"mamba_*", "hybrid and state-space models are not built"},
    {"compile*", "there is nothing to compile: every kernel is built with the program"},
    {"torch_compile*", "there is nothing to compile: every kernel is built with the program"},
    {"deepspeed*", "DeepSpeed is not used; parallelism.zero divides the state"},
    {"epochs", "a run's length is training.steps or training.tokens"},
    {"num_epochs", "a run's length is training.steps or training.tokens"},
    {"num_train_epochs", "a run's length is training.steps or training.tokens"},
    {"wandb*", "Weights & Biases is not built; metrics.jsonl and TensorBoard are"},
    {"use_wandb", "Weights & Biases is not built; metrics.jsonl and TensorBoard are"},
    {"*flash_att*", "there is nothing to choose: attention never holds its whole matrix"},
    {"rotary_percent", "only whole heads are rotated"},
    {"partial_rotary_factor", "only whole heads are rotated"},
    {"rotary_interleaved", "only Hugging Face's order of rotary pairs is built"},
    {"rope_interleaved", "only Hugging Face's order of rotary pairs is built"},
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
