#include "trainer/config/hints.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "trainer/config/foreign_keys.h"
#include "trainer/config/missing_features.h"
#include "trainer/config/option.h"

namespace trireme {
namespace {

// What values of ours are called elsewhere.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNamesElsewhere{
    {{"gpu", "cuda"},
     {"fp32", "float32"},
     {"single", "float32"},
     {"bf16", "bfloat16"},
     {"fp16", "float16"},
     {"half", "float16"},
     {"fp8", "float8"},
     {"cos", "cosine"}}};

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char one, char other) {
    return std::tolower(static_cast<unsigned char>(one)) ==
           std::tolower(static_cast<unsigned char>(other));
  });
}

struct OtherNames {
  const char* ours;
  const char* theirs;  // separated by spaces; names with a dot match in that section only
};

// Common names that are in no table of keys: of scripts, and of trainers without an importer.
constexpr OtherNames kOtherNames[] = {
    {"training.steps",
     "max_steps num_steps n_steps total_steps max_iters num_iterations iterations num_train_steps "
     "train_steps"},
    {"training.tokens", "max_tokens total_tokens num_tokens train_tokens"},
    {"training.seq_len",
     "block_size context_length max_seq_len max_seq_length sequence_length seq_length ctx_len "
     "n_ctx max_length"},
    {"training.local_batch_size",
     "micro_batch microbatch_size device_batch_size per_device_train_batch_size mbs"},
    {"training.global_batch_size",
     "batch_size train_batch_size total_batch_size gradient_accumulation_steps grad_accum_steps "
     "gradient_accumulation gbs"},
    {"training.max_norm",
     "grad_clip max_grad_norm gradient_clipping gradient_clip_val grad_norm_clip clip_grad_norm"},
    {"training.dtype",
     "precision mixed_precision amp autocast fp32 fp8 float32 bfloat16 float16 param_dtype "
     "torch_dtype"},
    {"optimizer.name", "optimizer optim optimizer_type"},
    {"optimizer.lr", "learning_rate max_lr lr_max peak_lr base_lr"},
    {"optimizer.weight_decay", "wd decay"},
    {"optimizer.beta1", "betas"},
    {"optimizer.eps", "epsilon adam_epsilon"},
    {"lr_scheduler.name", "scheduler lr_scheduler_type schedule_type lr_schedule decay_style"},
    {"lr_scheduler.warmup_steps",
     "warmup num_warmup_steps warmup_iters lr_warmup warmup_ratio warmup_fraction"},
    {"lr_scheduler.min_lr_factor", "min_lr lr_min min_learning_rate final_lr"},
    {"model.flavor", "model.name model.size model.preset"},
    {"model.num_hidden_layers", "n_layers n_layer layers depth num_blocks"},
    {"model.hidden_size", "d_model dim n_embd hidden_dim embed_dim model_dim"},
    {"model.num_experts", "num_local_experts n_routed_experts moe_num_experts"},
    {"model.num_experts_per_tok", "top_k moe_top_k moe_router_topk experts_per_token"},
    {"model.moe_intermediate_size", "moe_ffn_hidden_size expert_intermediate_size"},
    {"model.n_shared_experts", "num_shared_experts"},
    {"model.routed_scaling_factor", "moe_router_topk_scaling_factor route_scale"},
    {"model.scoring_func", "moe_router_score_function score_func"},
    {"model.n_group", "moe_router_num_groups num_expert_groups"},
    {"model.topk_group", "moe_router_group_topk num_limited_groups"},
    {"model.router_bias_update_rate", "moe_router_bias_update_rate load_balance_coeff"},
    {"model.router_aux_loss_coef", "moe_aux_loss_coeff moe_loss_weight aux_loss_coef"},
    {"model.router_force_load_balancing",
     "moe_router_force_load_balancing debug_force_load_balance"},
    {"model.router_z_loss_coef", "moe_z_loss_coeff moe_zloss_weight"},
    {"model.intermediate_size", "d_ff ffn_dim ffn_hidden_dim n_inner mlp_dim"},
    {"model.num_attention_heads", "n_heads n_head num_heads heads"},
    {"model.num_key_value_heads", "n_kv_heads num_kv_heads kv_heads"},
    {"model.tie_word_embeddings", "weight_tying tie_embeddings tied_embeddings"},
    {"parallelism.tensor", "tp tp_size tensor_parallel tensor_parallel_size"},
    {"parallelism.pipeline", "pp pp_size pipeline_parallel pipeline_parallel_size"},
    {"parallelism.data_shard", "dp dp_size dp_shard data_parallel data_parallel_size"},
    {"parallelism.data_replicate", "dp_replicate"},
    {"parallelism.context", "cp_size context_parallel context_parallel_size"},
    {"parallelism.zero", "fsdp zero_stage stage sharding_strategy use_distributed_optimizer"},
    {"parallelism.virtual_stages", "virtual_pipeline vpp num_virtual_stages"},
    {"parallelism.sequence", "sp sequence_parallel"},
    {"activation_checkpoint.mode", "gradient_checkpointing activation_checkpointing recompute"},
    {"job.dump_folder", "output_dir out_dir save_dir run_dir"},
    {"job.seed", "random_seed manual_seed rng_seed"},
    {"job.device", "accelerator"},
    {"job.reproducible", "deterministic"},
    {"checkpoint.interval", "save_steps save_every save_freq checkpoint_every checkpoint_interval"},
    {"checkpoint.keep_latest_k", "save_total_limit keep_last max_checkpoints"},
    {"checkpoint.resume", "resume_from_checkpoint resume_from"},
    {"checkpoint.initial_load_path", "init_from load pretrained model_name_or_path"},
    {"checkpoint.upcycle_noise", "upcycling_noise upcycle_noise_std expert_noise"},
    {"metrics.log_freq", "logging_steps log_every log_every_n_steps"},
    {"metrics.enable_tensorboard", "tensorboard"},
    {"validation.freq", "eval_steps eval_every val_every eval_freq"},
    {"validation.steps", "val_steps num_eval_batches"},
    {"data.train", "dataset data_path train_data dataset_path train_files data_dir"},
    {"data.validation", "val_data valid_data validation_data eval_dataset"},
    {"data.tokenizer", "tokenizer_path tokenizer_name tokenizer_file"},
};

std::string last_part(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

std::string in_snake_case(std::string name) {
  for (char& c : name) {
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

// Our key by another trainer's last part of it; the first that has a name keeps it.
std::map<std::string, std::string> make_foreign_names() {
  std::map<std::string, std::string> names;
  for (const OtherNames& one : kOtherNames) {
    std::istringstream words(one.theirs);
    for (std::string word; words >> word;) names.emplace(word, one.ours);
  }
  for (const auto& keys : {megatron_keys(), torchtitan_keys(), nanotron_keys()}) {
    for (const ForeignKey& key : keys) {
      names.emplace(in_snake_case(last_part(key.theirs)), key.ours);
    }
  }
  names.erase("name");  // ambiguous: model, optimizer or schedule
  return names;
}

std::string foreign_name(const std::string& section, const std::string& name) {
  static const std::map<std::string, std::string> names = make_foreign_names();
  for (const std::string& one : {section + "." + name, name}) {
    if (const auto found = names.find(one); found != names.end()) return found->second;
  }
  return {};
}

// Of this section, or of the same name elsewhere, or by the name of another trainer.
std::string known_key(const std::string& section, const std::string& name) {
  std::vector<std::string> here;
  for (const Option& option : options()) {
    if (option.section() != section) continue;
    here.push_back(option.name());
    here.insert(here.end(), option.aliases.begin(), option.aliases.end());
  }
  // A typo of one letter is likelier than a name of another trainer.
  if (const std::string near = nearest(name, here);
      !near.empty() && edit_distance(name, near) < 2) {
    return section + "." + near;
  }
  if (const std::string key = foreign_name(section, name); !key.empty()) return key;
  for (const Option& option : options()) {
    if (option.name() == name) return option.key;
  }
  return {};
}

std::string nearest_key(const std::string& section, const std::string& name) {
  std::vector<std::string> here;
  std::vector<std::string> everywhere;
  for (const Option& option : options()) {
    everywhere.push_back(option.key);
    if (option.section() == section) here.push_back(option.name());
  }
  if (const std::string near = nearest(name, here); !near.empty()) return section + "." + near;
  return nearest(section + "." + name, everywhere);
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> cost((a.size() + 1) * width);
  for (std::size_t j = 0; j < width; ++j) cost[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    cost[i * width] = i;
    for (std::size_t j = 1; j < width; ++j) {
      const std::size_t replaced = cost[(i - 1) * width + j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      std::size_t best =
          std::min({replaced, cost[(i - 1) * width + j] + 1, cost[i * width + j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = std::min(best, cost[(i - 2) * width + j - 2] + 1);
      }
      cost[i * width + j] = best;
    }
  }
  return cost.back();
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestWord = 64;  // longer words are not typos
  if (word.size() > kLongestWord) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string nearest_value(std::string_view word, std::span<const std::string> candidates) {
  for (const std::string& candidate : candidates) {
    if (same_letters(word, candidate)) return candidate;
    for (const auto& [elsewhere, ours] : kNamesElsewhere) {
      if (same_letters(word, elsewhere) && ours == candidate) return candidate;
    }
  }
  return nearest(word, candidates);
}

std::string did_you_mean(const std::string& near) {
  return near.empty() ? "; 'trireme config keys' lists all" : "; did you mean " + near + "?";
}

std::string hint_for_key(const std::string& section, const std::string& name,
                         const std::string& dashes) {
  const std::string word = in_snake_case(name);
  std::string key = known_key(section, word);
  if (key.empty()) {
    if (const std::string why = missing_feature(name); !why.empty()) return "; " + why;
    key = nearest_key(section, word);
  }
  return did_you_mean(key.empty() ? key : dashes + key);
}

}  // namespace trireme
