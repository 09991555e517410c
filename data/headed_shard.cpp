#include "data/headed_shard.h"

#include <cstring>
#include <string_view>

#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr std::size_t kShardHeaderBytes = 1024;
constexpr std::string_view kLlmq = "BIN.TOK\n";
constexpr std::int32_t kLlmcGpt2 = 20240520, kLlmcLlama3 = 20240801, kLlmcChoices = 20240522;

std::int32_t number(std::span<const std::byte> image, std::size_t place) {
  std::int32_t value = 0;
  std::memcpy(&value, image.data() + 4 * place, sizeof value);
  return value;
}

constexpr const char* kCopyAgain = "copy or write the file again";

}  // namespace

HeadedShard::HeadedShard(const std::filesystem::path& path)
    : PackedTokens(path.string(), path.string()), file_(map_tokens(path)), image_(file_.bytes()) {
  open();
}

HeadedShard::HeadedShard(std::span<const std::byte> image, const std::string& name)
    : PackedTokens(name, name), image_(image) {
  open();
}

void HeadedShard::open() {
  if (image_.size() < kShardHeaderBytes) {
    refuse(name(),
           say("is cut off: ", image_.size(), " bytes, but the header needs ", kShardHeaderBytes),
           kCopyAgain);
  }
  if (std::memcmp(image_.data(), kLlmq.data(), kLlmq.size()) == 0) return open_llmq();
  open_llmc();
}

void HeadedShard::open_llmc() {
  format_ = "llm.c";
  const std::int32_t magic = number(image_, 0), version = number(image_, 1);
  if (magic == kLlmcChoices) {
    refuse(name(), "holds multiple-choice questions, not text", "give a token file of llm.c");
  }
  const bool gpt2 = magic == kLlmcGpt2;
  if (!gpt2 && magic != kLlmcLlama3) {
    refuse(name(), "is a token file of neither llm.c nor LLM.Q",
           "give the prefix of a Megatron pair without its .bin, or a shard of these two, or of "
           "datatrove (.ds)");
  }
  const std::int32_t known = gpt2 ? 1 : 7;
  if (version != known) {
    refuse(name(), say("has version ", version, " of llm.c's format"),
           say("version ", known, " can be read"));
  }
  take(number(image_, 2), gpt2 ? TokenType::kU16 : TokenType::kI32);
}

void HeadedShard::open_llmq() {
  format_ = "LLM.Q";
  const std::int32_t version = number(image_, 2), bytes = number(image_, 3);
  if (version != 1 && version != 2) {
    refuse(name(), say("has version ", version, " of LLM.Q's format"), "1 and 2 can be read");
  }
  if (bytes != 4) refuse(name(), say("has ", bytes, " bytes per token"), "LLM.Q's have 4");
  if (version == 2 && number(image_, 6) != 0) {
    refuse(name(), "has a loss mask, which is not supported",
           "write it without the mask to train on all tokens");
  }
  take(number(image_, 4), TokenType::kI32);
}

void HeadedShard::take(std::int64_t tokens, TokenType type) {
  const std::size_t room = image_.size() - kShardHeaderBytes;
  if (tokens < 0 || room / size_of(type) != static_cast<std::size_t>(tokens) ||
      room % size_of(type) != 0) {
    refuse(name(),
           say("has ", room, " bytes after its header, but the header says ", tokens, " tokens of ",
               size_of(type), " bytes"),
           kCopyAgain);
  }
  set_tokens(image_, image_.subspan(kShardHeaderBytes), type);
}

}  // namespace trireme::data
