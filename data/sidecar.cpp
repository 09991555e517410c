#include "data/sidecar.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "data/indexed_dataset.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/hex.h"
#include "model/base/json.h"

namespace trireme::data {
namespace {

// Bytes per mapping, so that pages already read can be evicted.
constexpr std::size_t kPiece = std::size_t{64} << 20;

nlohmann::json sidecar_of(const std::filesystem::path& prefix) {
  std::error_code why;
  if (!std::filesystem::is_regular_file(sidecar_path(prefix), why)) return {};
  return nlohmann::json::parse(read_text(sidecar_path(prefix), 1u << 20), nullptr,
                               /*allow_exceptions=*/false);
}

namespace fs = std::filesystem;

constexpr const char* kSidecarFormat = "trireme-tokens-1";

// PREFIX.json: the sidecar, and what identifies its dataset.
struct SidecarFile {
  Sidecar sidecar;
  std::string format = kSidecarFormat;
  std::uint64_t index_bytes = 0, token_bytes = 0, sampled_hash = 0;
  std::uint64_t index_hash = 0, token_hash = 0;  // for verify_files()
};
void json_fields(auto& f, SidecarFile& file) {
  f("format", file.format);
  f("tokenizer", file.sidecar.tokenizer);
  f("tokenizer_path", file.sidecar.tokenizer_path);
  f("tokenizer_hash", file.sidecar.tokenizer_hash);
  f("vocab_size", file.sidecar.vocab_size);
  f("end_of_document", file.sidecar.end_of_document, {.least = -1});
  f("documents", file.sidecar.documents);
  f("tokens", file.sidecar.tokens);
  f("text_bytes", file.sidecar.text_bytes);
  f("highest_id", file.sidecar.highest_id, {.least = -1});
  f("index_bytes", file.index_bytes);
  f("token_bytes", file.token_bytes);
  f.hex("sampled_hash", file.sampled_hash);
  if (f.kReads) return;
  f.hex("index_hash", file.index_hash);
  f.hex("token_hash", file.token_hash);
}

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

std::uint64_t file_hash(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    XXH3_64bits_update(state.get(), &bytes[at], std::min(kPiece, bytes.size() - at));
  }
  return XXH3_64bits_digest(state.get());
}

std::optional<std::uint64_t> verify_files(const std::filesystem::path& prefix) {
  const nlohmann::json sidecar = sidecar_of(prefix);
  std::uint64_t bytes = 0;
  for (const auto& [key, path] : {std::pair("index_hash", index_path(prefix)),
                                  std::pair("token_hash", tokens_path(prefix))}) {
    if (!sidecar.is_object() || !sidecar.contains(key)) return std::nullopt;
    const std::string found = hex(file_hash(path));
    if (sidecar[key] != found) {
      throw DataError(say(path.string(),
                          ": differs from the file that trireme tokenize wrote: its hash is ",
                          found, ", ", sidecar_path(prefix).string(), " has ", sidecar[key].dump(),
                          ". Copy the file again or run trireme tokenize again; if another program "
                          "wrote it on purpose, remove the .json file"));
    }
    bytes += std::filesystem::file_size(path);
  }
  return bytes;
}

void write_sidecar(const std::filesystem::path& prefix, const Sidecar& sidecar,
                   const TokenStream& dataset) {
  SidecarFile file{.sidecar = sidecar,
                   .index_bytes = dataset.index_bytes(),
                   .token_bytes = dataset.token_bytes(),
                   .sampled_hash = dataset.sampled_hash(),
                   .index_hash = file_hash(index_path(prefix)),
                   .token_hash = file_hash(tokens_path(prefix))};
  file.sidecar.tokenizer_path = relative_to_sidecar(sidecar.tokenizer_path, sidecar_path(prefix));
  replace_text(sidecar_path(prefix), json_text<nlohmann::ordered_json>(file, 2) + "\n");
}

std::optional<Sidecar> read_sidecar(const std::filesystem::path& prefix,
                                    const TokenStream& dataset) try {
  auto file = valid_json<SidecarFile>(read_text(sidecar_path(prefix), 1u << 20), JsonKeys::kAny);
  const bool is_of_dataset =
      file && file->format == kSidecarFormat && file->index_bytes == dataset.index_bytes() &&
      file->token_bytes == dataset.token_bytes() && file->sampled_hash == dataset.sampled_hash();
  if (!is_of_dataset) return std::nullopt;
  file->sidecar.tokenizer_path =
      path_from_sidecar(file->sidecar.tokenizer_path, sidecar_path(prefix));
  return file->sidecar;
} catch (const EnvironmentError&) {
  return std::nullopt;  // treated as missing
}

}  // namespace trireme::data
