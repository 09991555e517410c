#include "data/sidecar.h"

#include <nlohmann/json.hpp>

#include "data/file_hashes.h"
#include "data/hex.h"
#include "data/indexed_dataset.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSidecarFormat = "trireme-tokens-1";

fs::path folder_of(const fs::path& file) {
  return fs::weakly_canonical(fs::absolute(file).parent_path());
}

// Resolves links in folders but not the file itself: files next to a link belong to it.
std::string relative_to_sidecar(const std::string& path, const fs::path& sidecar) {
  if (path.empty()) return path;
  const fs::path file = fs::absolute(path);
  return (folder_of(file).lexically_relative(folder_of(sidecar)) / file.filename())
      .lexically_normal()
      .string();
}

// Old sidecars have the path as it was given, relative to an unknown folder.
std::string path_from_sidecar(const std::string& path, const fs::path& sidecar) {
  if (path.empty() || fs::path(path).is_absolute()) return path;
  const std::string beside = (sidecar.parent_path() / path).lexically_normal().string();
  std::error_code why;
  return !fs::exists(beside, why) && fs::exists(path, why) ? path : beside;
}

}  // namespace

void write_sidecar(const std::filesystem::path& prefix, const Sidecar& sidecar,
                   const TokenStream& dataset) {
  const nlohmann::ordered_json json{
      {"format", kSidecarFormat},
      {"tokenizer", sidecar.tokenizer},
      {"tokenizer_path", relative_to_sidecar(sidecar.tokenizer_path, sidecar_path(prefix))},
      {"tokenizer_hash", sidecar.tokenizer_hash},
      {"vocab_size", sidecar.vocab_size},
      {"end_of_document", sidecar.end_of_document},
      {"documents", sidecar.documents},
      {"tokens", sidecar.tokens},
      {"text_bytes", sidecar.text_bytes},
      {"highest_id", sidecar.highest_id},
      {"index_bytes", dataset.index_bytes()},
      {"token_bytes", dataset.token_bytes()},
      {"sampled_hash", hex(dataset.sampled_hash())},
      {"index_hash", hex(file_hash(index_path(prefix)))},
      {"token_hash", hex(file_hash(tokens_path(prefix)))}};
  // A path may be invalid UTF-8, which JSON does not allow.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  replace_text(sidecar_path(prefix), json.dump(2, ' ', false, kReplace) + "\n");
}

std::optional<Sidecar> read_sidecar(const std::filesystem::path& prefix,
                                    const TokenStream& dataset) {
  try {
    const auto json = nlohmann::json::parse(read_text(sidecar_path(prefix), 1u << 20));
    if (json.at("format") != kSidecarFormat) return std::nullopt;
    if (json.at("index_bytes") != dataset.index_bytes()) return std::nullopt;
    if (json.at("token_bytes") != dataset.token_bytes()) return std::nullopt;
    if (json.at("sampled_hash") != hex(dataset.sampled_hash())) return std::nullopt;
    Sidecar sidecar;
    json.at("tokenizer").get_to(sidecar.tokenizer);
    json.at("tokenizer_path").get_to(sidecar.tokenizer_path);
    sidecar.tokenizer_path = path_from_sidecar(sidecar.tokenizer_path, sidecar_path(prefix));
    json.at("tokenizer_hash").get_to(sidecar.tokenizer_hash);
    json.at("vocab_size").get_to(sidecar.vocab_size);
    json.at("end_of_document").get_to(sidecar.end_of_document);
    json.at("documents").get_to(sidecar.documents);
    json.at("tokens").get_to(sidecar.tokens);
    json.at("text_bytes").get_to(sidecar.text_bytes);
    json.at("highest_id").get_to(sidecar.highest_id);
    return sidecar;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const EnvironmentError&) {
    return std::nullopt;  // treated as missing
  }
}

}  // namespace trireme::data
