#include "trainer/loop/data_checks.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "data/open_tokens.h"
#include "data/sidecar.h"
#include "data/tokenizer.h"
#include "model/base/error.h"
#include "model/base/human.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

std::vector<DataSource> sources_of(const DataConfig& data) {
  std::vector<DataSource> sources = data.train;
  for (const DataStage& stage : data.stages) {
    sources.insert(sources.end(), stage.train.begin(), stage.train.end());
  }
  sources.insert(sources.end(), data.validation.begin(), data.validation.end());
  return sources;
}

std::optional<data::Sidecar> sidecar_of(const DataSource& source) {
  try {
    return data::read_sidecar(source.path, *data::open_tokens(source.path));
  } catch (const DataError&) {
    return std::nullopt;  // reported where the training data are opened
  }
}

}  // namespace

std::string verify_data(const RunConfig& config, const Team& team, const World& world) {
  const double start = seconds_now();
  std::uint64_t bytes = 0;
  std::string unknown;
  team.together([&] {
    if (world.local_rank() != 0) return;
    std::set<std::filesystem::path> paths;
    for (const DataSource& source : sources_of(config.data)) paths.insert(source.path);
    for (const std::filesystem::path& path : paths) {
      if (const auto verified = data::verify_files(path)) {
        bytes += *verified;
      } else {
        unknown += (unknown.empty() ? "" : ", ") + path.string();
      }
    }
  });
  std::string result = fmt::format("token files: {} match their hashes, read in {:.1f} s",
                                   human_bytes(bytes), seconds_now() - start);
  if (!unknown.empty()) result += "; no hashes recorded for " + unknown;
  return result;
}

void check_tokenizer(const RunConfig& config) {
  const std::string& name = config.data.tokenizer;
  if (name.empty()) return;
  std::error_code why;
  if (name != "bytes" && !std::filesystem::exists(name, why)) {
    throw on_all_ranks(ConfigError(
        say("data.tokenizer = \"", name, "\": no such file; correct the path or remove the key")));
  }
  std::unique_ptr<data::Tokenizer> tokenizer;
  for (const DataSource& source : sources_of(config.data)) {
    const auto sidecar = sidecar_of(source);
    if (!sidecar || sidecar->tokenizer_hash.empty()) continue;
    if (!tokenizer) tokenizer = data::open_tokenizer(name);
    if (tokenizer->hash() == sidecar->tokenizer_hash) continue;
    const bool has_path = !sidecar->tokenizer_path.empty();
    throw DataError(say(
        "data.tokenizer = \"", name, "\" (hash ", tokenizer->hash(),
        ") did not make the token files ", source.path.string(), ", which were made by ",
        has_path ? sidecar->tokenizer_path : sidecar->tokenizer, " (hash ", sidecar->tokenizer_hash,
        "); set data.tokenizer to that one, or tokenize the text again with this one"));
  }
}

}  // namespace trireme
