#include "trainer/loop/initial_weights.h"

#include <algorithm>
#include <sstream>

#include "checkpoint/huggingface/model_folder.h"
#include "checkpoint/read/load.h"
#include "model/base/log.h"
#include "trainer/config/difference.h"
#include "trainer/config/reader.h"
#include "trainer/config/value_text.h"
#include "trainer/convert/huggingface/config_json.h"
#include "trainer/convert/huggingface/foreign_weights.h"
#include "trainer/loop/allowed_changes.h"
#include "trainer/loop/train_state.h"
#include "trainer/loop/upcycling.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using checkpoint::Manifest;

constexpr const char* kKey = "checkpoint.initial_load_path: ";

// Newest first; only rank 0 reads the folder.
std::vector<fs::path> candidates(const fs::path& asked, const Team& team) {
  const std::string names = team.led([&] {
    if (checkpoint::is_checkpoint(asked)) return asked.string() + "\n";
    std::string text;
    for (const checkpoint::Summary& one : checkpoint::Store(asked).list()) {
      text += one.folder.string() + "\n";
    }
    if (text.empty()) throw CheckpointError(say(kKey, asked.string(), " holds no checkpoint"));
    return text;
  });
  std::vector<fs::path> folders;
  std::istringstream lines(names);
  for (std::string name; std::getline(lines, name);) folders.emplace_back(name);
  return folders;
}

// Whether `config` scales RoPE from exactly the length that the model was trained at without.
bool extends_context(const RunConfig& there, const RunConfig& config) {
  const RopeScaling& scaling = config.model.rope_scaling;
  return there.model.rope_scaling.type == RopeScaling::Type::kDefault &&
         scaling.original_max_position_embeddings == there.training.seq_len;
}

// The model's keys whose values make it a different model from `config`'s.
NumericChanges model_changes(const RunConfig& there, const RunConfig& config) {
  NumericChanges model;
  for (const Change& change : numeric_changes(there, config, 0).refused) {
    if (change.key == "model.rope_scaling" && extends_context(there, config)) continue;
    if (change.key.starts_with("model.")) model.refused.push_back(change);
  }
  return model;
}

RunConfig config_in(const Manifest& manifest, const fs::path& folder) {
  const std::string name = (folder / Manifest::kFileName).string() + " (config)";
  const RunConfig config =
      read_config({name, manifest.config, folder}, {}, Purpose::kInference).config;
  return config_of_last_step(config, folder, manifest);
}

void require_upcycles(const ModelConfig& there, const ModelConfig& here, const fs::path& folder) {
  if (!same_family_parts(here, there)) {
    throw MismatchError(say(folder.string(), " cannot be upcycled: model.model_type: ",
                            to_toml(there.model_type), " -> ", to_toml(here.model_type),
                            ": these types differ in more than experts; llama and mistral become "
                            "mixtral, qwen3 becomes qwen3_moe"));
  }
  if (there.intermediate_size == here.moe_intermediate_size) return;
  throw MismatchError(
      say(folder.string(), " is a dense model and each expert is a copy of its layer's MLP: ",
          "model.moe_intermediate_size = ", here.moe_intermediate_size,
          " must equal model.intermediate_size = ", there.intermediate_size, " there; set ",
          "model.moe_intermediate_size = ", there.intermediate_size));
}

// Noise that is not applied would be a silent misconfiguration.
void require_no_noise(const RunConfig& config, const fs::path& folder) {
  if (config.checkpoint.upcycle_noise == 0) return;
  throw MismatchError(say(folder.string(),
                          " already has experts, so nothing is upcycled; remove "
                          "checkpoint.upcycle_noise = ",
                          config.checkpoint.upcycle_noise));
}

// Tensors of equal shapes may still belong to another model: other heads, other positions. That can
// be allowed; other shapes cannot.
void require_same_model(const RunConfig& there, const RunConfig& config, const Manifest& manifest,
                        const fs::path& folder, std::span<const checkpoint::Piece> weights) {
  const NumericChanges model = model_changes(there, config);
  try {
    checkpoint::check_match(manifest, weights, checkpoint::Match::kSubset, folder.string());
  } catch (const MismatchError& error) {
    throw MismatchError(say(error.what(), lines_of(model.refused)));
  }
  if (model.refused.empty()) return;
  throw MismatchError(
      say(folder.string(), " holds a different model:", refusal_text(model, config)));
}

// Fills `pieces` from a checkpoint; whether by upcycling.
bool load_from(const RunConfig& config, const Engine& engine, const fs::path& folder,
               const Manifest& manifest, const std::vector<checkpoint::Piece>& pieces) {
  const RunConfig there = config_in(manifest, folder);
  const bool upcycles = needs_upcycling(there.model, config.model);
  RunConfig here = config;
  if (upcycles) {
    require_upcycles(there.model, config.model, folder);
    here.model = without_experts(config.model, there.model);
  } else {
    require_no_noise(config, folder);
  }
  const std::vector<checkpoint::Piece> wanted = upcycles ? dense_pieces(pieces) : pieces;
  require_same_model(there, here, manifest, folder, wanted);
  checkpoint::load_pieces(folder, manifest, wanted, checkpoint::Match::kSubset);
  if (upcycles) {
    finish_upcycling(engine.model().params(), pieces,
                     {.seed = static_cast<std::uint64_t>(config.job.seed),
                      .noise = config.checkpoint.upcycle_noise});
  }
  return upcycles;
}

// The weights of a Hugging Face model; every rank reads its own shards.
checkpoint::Loaded load_foreign(const RunConfig& config, const fs::path& folder,
                                std::span<const checkpoint::Piece> weights, const Team& team) {
  team.together([&] {
    const ImportedConfig there = read_config_json(folder);
    if (needs_upcycling(there.config.model, config.model)) {
      throw CheckpointError(say(kKey, folder.string(),
                                " is a dense model; only a checkpoint can be upcycled to experts: "
                                "first import it with trireme checkpoint import"));
    }
    require_no_noise(config, folder);
    const NumericChanges model = model_changes(there.config, config);
    if (!model.refused.empty()) {
      throw CheckpointError(
          say(kKey, folder.string(), " holds a different model:", refusal_text(model, config)));
    }
    ForeignWeights(folder, config.model).fill(weights);
    for (const std::string& note : team.leads() ? there.notes : std::vector<std::string>{}) {
      log_warning("{}: ignored: {}", (folder / "config.json").string(), note);
    }
  });
  return {0, folder, {}, {}};
}

}  // namespace

InitialWeights load_initial_weights(const RunConfig& config, Engine& engine, Communicator& ranks) {
  const Team team(ranks);
  const fs::path asked = config.checkpoint.initial_load_path;
  engine.host_state().download(engine.stream());  // the optimizer's state, which stays zero
  const std::vector<checkpoint::Piece> pieces =
      weight_pieces(engine.model().params(), engine.host_state().masters());
  const bool is_foreign =
      !team.led([&] { return checkpoint::huggingface::is_model_folder(asked) ? "foreign" : ""; })
           .empty();
  if (is_foreign) {
    InitialWeights weights{.from = load_foreign(config, asked, pieces, team)};
    engine.host_state().upload(engine.stream());
    engine.model().publish_masters(engine.stream());
    return weights;
  }
  std::vector<std::string> rejected;
  std::string reasons;
  const auto reject = [&](const Error& why) {
    rejected.emplace_back(why.what());
    reasons += say("\n  ", why.what());
  };
  for (const fs::path& folder : candidates(asked, team)) {
    try {
      InitialWeights weights{.from = {0, folder, {}, rejected}};
      checkpoint::Loaded& from = weights.from;
      team.together([&] {
        from.manifest = checkpoint::read_manifest(folder);
        weights.upcycled = load_from(config, engine, folder, from.manifest, pieces);
      });
      from.step = from.manifest.step;
      engine.host_state().upload(engine.stream());
      // Upcycled weights are others; what was read has been verified block by block.
      if (!weights.upcycled) require_weights(from, engine, ranks);
      engine.model().publish_masters(engine.stream());
      return weights;
    } catch (const MismatchError& why) {
      throw on_all_ranks(CheckpointError(say(kKey, why.what())));
    } catch (const CheckpointError& why) {
      reject(why);
    } catch (const EnvironmentError& why) {  // missing, unreadable
      reject(why);
    }
  }
  throw on_all_ranks(
      CheckpointError(say(kKey, asked.string(), " holds no good checkpoint:", reasons)));
}

}  // namespace trireme
