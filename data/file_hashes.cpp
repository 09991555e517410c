#include "data/file_hashes.h"

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

}  // namespace trireme::data
