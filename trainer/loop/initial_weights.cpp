#include "trainer/loop/initial_weights.h"

#include <algorithm>
#include <sstream>

#include "checkpoint/load.h"
#include "trainer/config/difference.h"
#include "trainer/config/reader.h"
#include "trainer/config/value_text.h"
#include "trainer/loop/allowed_changes.h"
#include "trainer/loop/run_state.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using checkpoint::Manifest;

constexpr const char* kKey = "checkpoint.initial_load_path: ";

// Newest first; the leader alone looks.
std::vector<fs::path> candidates(const fs::path& asked, const checkpoint::Team& team) {
  const std::string names = team.led([&] {
    std::error_code why;
    if (fs::exists(asked / Manifest::kFileName, why)) return asked.string() + "\n";
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

// Tensors of equal shapes can still mean something else: other heads, other positions. That may
// be allowed; other shapes may not.
void require_same_model(const RunConfig& config, const Manifest& manifest, const fs::path& folder,
                        std::span<const checkpoint::Piece> weights) {
  const std::string name = (folder / Manifest::kFileName).string() + " (config)";
  const RunConfig there = read_config({name, manifest.config, folder}, {}).config;
  NumericChanges model;
  for (const Change& change : numeric_changes(there, config, 0).refused) {
    if (change.key.starts_with("model.")) model.refused.push_back(change);
  }
  try {
    checkpoint::check_match(manifest, weights, checkpoint::Match::kSubset, folder.string());
  } catch (const checkpoint::MismatchError& error) {
    throw checkpoint::MismatchError(say(error.what(), lines_of(model.refused)));
  }
  if (model.refused.empty()) return;
  throw checkpoint::MismatchError(
      say(folder.string(), " holds another model:", refusal_text(model, config)));
}

}  // namespace

checkpoint::Loaded load_initial_weights(const RunConfig& config, Engine& engine,
                                        Communicator& ranks) {
  const checkpoint::Team team(ranks);
  const fs::path asked = config.checkpoint.initial_load_path;
  engine.host_state().download(engine.stream());  // its moments, which stay zero
  const std::vector<checkpoint::Piece> pieces =
      weight_pieces(engine.params(), engine.host_state().masters());
  std::vector<std::string> rejected;
  std::string reasons;
  const auto reject = [&](const Error& why) {
    rejected.emplace_back(why.what());
    reasons += say("\n  ", why.what());
  };
  for (const fs::path& folder : candidates(asked, team)) {
    try {
      checkpoint::Loaded loaded{0, folder, {}, rejected};
      team.together([&] {
        loaded.manifest = checkpoint::read_manifest(folder);
        require_same_model(config, loaded.manifest, folder, pieces);
        checkpoint::load_pieces(folder, loaded.manifest, pieces, checkpoint::Match::kSubset);
        return std::string();
      });
      loaded.step = loaded.manifest.step;
      engine.host_state().upload(engine.stream());
      require_weights(loaded, engine, ranks);
      engine.publish_masters();
      return loaded;
    } catch (const checkpoint::MismatchError& why) {
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
