#include "trainer/config/complete.h"

#include <algorithm>
#include <type_traits>

#include "model/stage/layer_config.h"
#include "model/stage/model_family.h"
#include "parallel/context/context_cost.h"
#include "parallel/optimizer/registry.h"
#include "trainer/config/flavors.h"
#include "trainer/config/option.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

class Completion {
 public:
  explicit Completion(LoadedConfig& loaded) : loaded_(loaded), model_(loaded.config.model) {}

  void model() {
    forget_what_the_flavor_derived();
    const ModelFamily& family = find_family(model_.model_type);
    if (model_.intermediate_size == 0 && family.mlp_ratio > 0) {
      derive("model.intermediate_size", model_.intermediate_size,
             family.mlp_ratio * model_.hidden_size);
    }
    if (model_.num_key_value_heads == 0) {
      derive("model.num_key_value_heads", model_.num_key_value_heads, model_.num_attention_heads);
    }
    if (model_.head_dim == 0 && model_.num_attention_heads > 0) {
      derive("model.head_dim", model_.head_dim, model_.hidden_size / model_.num_attention_heads);
    }
    if (model_.max_position_embeddings == 0) {
      derive("model.max_position_embeddings", model_.max_position_embeddings,
             loaded_.config.training.seq_len);
    }
    model_.attention_output_bias = model_.attention_bias && family.attention_output_bias;
    layers();
  }

  // Writes the family's pattern of layers out, unless a list has the wrong length.
  void layers() {
    const auto count =
        static_cast<std::size_t>(std::max<std::int64_t>(model_.num_hidden_layers, 0));
    const auto fits = [count](std::size_t size) { return size == 0 || size == count; };
    if (!fits(model_.layer_types.size()) || !fits(model_.no_rope_layers.size())) return;
    const ModelConfig before = model_;
    model_ = with_layer_lists(model_);
    const auto derived = [this](const char* key, bool is_same) {
      if (!is_same) loaded_.origins[key] = {Origin::Kind::kDerived, 0, 0};
    };
    derived("model.layer_types", before.layer_types == model_.layer_types);
    derived("model.no_rope_layers", before.no_rope_layers == model_.no_rope_layers);
    derived("model.sliding_window", before.sliding_window == model_.sliding_window);
  }

  // Recommended by the authors of the optimizers.
  void optimizer() {
    RunConfig recommended = loaded_.config;
    recommended.optimizer = find_optimizer(loaded_.config.optimizer.name).defaults;
    for (const Option& option : options()) {
      if (option.section() != "optimizer" || given(option.key)) continue;
      const Slot own = option.slot(recommended), to = option.slot(loaded_.config);
      if (to_toml(own) == to_toml(to)) continue;
      std::visit([&](auto* member) { *member = *std::get<decltype(member)>(own); }, to);
      loaded_.origins[option.key] = {Origin::Kind::kDerived, 0, 0};
    }
  }

  // Needs the model's heads.
  void parallelism() {
    ParallelismConfig& layout = loaded_.config.parallelism;
    const std::string method = "parallelism.context_method",
                      ulysses = "parallelism.context_ulysses";
    const ops::Heads heads =
        heads_of_rank({model_.num_attention_heads, model_.num_key_value_heads, model_.head_dim},
                      std::max<std::int64_t>(layout.tensor, 1));
    if (given(method) || given(ulysses) || loaded_.config.job.reproducible) return;
    if (layout.context <= 1 || heads.heads < 1 || heads.width < 1) return;
    const ContextChoice choice = default_choice(heads, layout.context);
    const bool is_one_level = choice.method == ContextMethod::kUlysses;
    derive(method.c_str(), layout.context_method, choice.method);
    derive(ulysses.c_str(), layout.context_ulysses, is_one_level ? 1 : choice.ulysses);
  }

  void training() {
    TrainingConfig& training = loaded_.config.training;
    if (training.global_batch_size == 0) {
      const std::vector<BatchSize>& ramp = training.rampup_batch_size;
      derive("training.global_batch_size", training.global_batch_size,
             ramp.empty() ? training.local_batch_size : ramp.back().sequences);
    }
  }

 private:
  bool given(const std::string& key) const { return loaded_.origin(key).is_given(); }

  template <class T>
  void derive(const char* key, T& member, std::type_identity_t<T> value) {
    member = value;
    loaded_.origins[key] = {Origin::Kind::kDerived, 0, 0};
  }

  // An override of hidden_size keeps the proportions of the flavor.
  void forget_what_the_flavor_derived() {
    const auto flavor = find_flavor(loaded_.config.flavor);
    if (!flavor) return;
    const bool is_reshaped = given("model.hidden_size") || given("model.num_attention_heads");
    if (!is_reshaped) return;
    const ModelFamily& family = find_family(model_.model_type);
    const bool has_own_head_dim = family.defaults.head_dim != 0;
    if (!given("model.head_dim") && !has_own_head_dim) model_.head_dim = 0;
    if (!given("model.num_key_value_heads") &&
        flavor->num_key_value_heads == flavor->num_attention_heads) {
      model_.num_key_value_heads = 0;
    }
    if (!given("model.intermediate_size") && family.mlp_ratio > 0) model_.intermediate_size = 0;
  }

  LoadedConfig& loaded_;
  ModelConfig& model_;
};

}  // namespace

void complete(LoadedConfig& loaded, const std::filesystem::path& folder) {
  Completion completion(loaded);
  completion.model();
  completion.optimizer();
  completion.parallelism();
  completion.training();
  std::filesystem::path& run = loaded.config.job.dump_folder;
  if (run.is_relative()) run = (folder / run).lexically_normal();
}

}  // namespace trireme
