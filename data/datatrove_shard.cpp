#include "data/datatrove_shard.h"

#include <cstring>

#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr std::size_t kBound = sizeof(std::uint64_t);

std::uint64_t bound(std::span<const std::byte> index, std::size_t place) {
  std::uint64_t value = 0;
  std::memcpy(&value, index.data() + kBound * place, sizeof value);
  return value;
}

std::filesystem::path with(const std::filesystem::path& path, const char* ending) {
  return path.string() + ending;
}

MappedFile map_index(const std::filesystem::path& path) {
  std::error_code why;
  const std::filesystem::path index = with(path, ".index"), loss = with(path, ".loss");
  if (std::filesystem::exists(loss, why)) {
    throw DataError(
        say(loss.string(),
            ": is a loss mask, which is not supported; remove it to train on all tokens"));
  }
  if (!std::filesystem::exists(index, why)) {
    throw DataError(
        say(index.string(),
            ": no such file; it gives the token size: copy it from where datatrove wrote it"));
  }
  return map_tokens(index);
}

}  // namespace

DatatroveShard::DatatroveShard(const std::filesystem::path& path)
    : PackedTokens(path.string(), path.string()),
      index_file_(map_index(path)),
      token_file_(map_tokens(path)),
      index_(index_file_.bytes()),
      stream_(token_file_.bytes()) {
  open();
}

DatatroveShard::DatatroveShard(std::span<const std::byte> index, std::span<const std::byte> tokens,
                               const std::string& name)
    : PackedTokens(name, name), index_(index), stream_(tokens) {
  open();
}

void DatatroveShard::open() {
  const auto refuse = [&](const std::string& fault) {
    throw DataError(say(name(), ".index: ", fault, ": copy both files again"));
  };
  if (index_.size() % kBound != 0) refuse(say("has ", index_.size(), " bytes, not 8 per document"));
  const std::size_t documents = index_.size() / kBound;
  std::uint64_t before = 0;
  for (std::size_t d = 0; d < documents; ++d) {
    const std::uint64_t end = bound(index_, d);
    if (end < before) refuse(say("document ", d, " ends at ", end, ", the one before at ", before));
    before = end;
  }
  const std::uint64_t bytes = stream_.size();
  const bool narrow = before == bytes / 2 && bytes % 2 == 0;
  const bool wide = before == bytes / 4 && bytes % 4 == 0;
  if (!narrow && !wide) {
    refuse(say("ends at token ", before, ", and ", name(), " has ", bytes,
               " bytes, which is neither 2 nor 4 per token"));
  }
  documents_ = static_cast<std::int64_t>(documents);
  set_tokens(stream_, stream_, narrow ? TokenType::kU16 : TokenType::kI32);
}

std::int64_t DatatroveShard::document_begin(std::int64_t document) const {
  if (document == 0) return 0;
  return static_cast<std::int64_t>(bound(index_, static_cast<std::size_t>(document) - 1));
}

}  // namespace trireme::data
