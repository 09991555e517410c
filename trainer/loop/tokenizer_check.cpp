#include "trainer/loop/tokenizer_check.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "data/open_tokens.h"
#include "data/sidecar.h"
#include "data/tokenizer.h"
#include "model/base/error.h"

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
    return std::nullopt;  // told where the data are opened to be trained on
  }
}

}  // namespace

void check_tokenizer(const RunConfig& config) {
  const std::string& name = config.data.tokenizer;
  if (name.empty()) return;
  std::error_code why;
  if (name != "bytes" && !std::filesystem::exists(name, why)) {
    throw on_all_ranks(
        ConfigError(say("data.tokenizer = \"", name,
                        "\": there is no such file; correct the path, or leave the key out")));
  }
  std::unique_ptr<data::Tokenizer> tokenizer;
  for (const DataSource& source : sources_of(config.data)) {
    const auto sidecar = sidecar_of(source);
    if (!sidecar || sidecar->tokenizer_hash.empty()) continue;
    if (!tokenizer) tokenizer = data::open_tokenizer(name);
    if (tokenizer->hash() == sidecar->tokenizer_hash) continue;
    const bool has_path = !sidecar->tokenizer_path.empty();
    throw DataError(say("data.tokenizer = \"", name, "\" (hash ", tokenizer->hash(),
                        ") is not what made the token files ", source.path.string(), ": that was ",
                        has_path ? sidecar->tokenizer_path : sidecar->tokenizer, " (hash ",
                        sidecar->tokenizer_hash,
                        "); name that one, or tokenize the text again with this one"));
  }
}

}  // namespace trireme
