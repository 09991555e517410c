#include "data/tokenizer.h"

#include <filesystem>

#include "data/bpe/bpe_tokenizer.h"
#include "data/byte_tokenizer.h"
#include "data/sentencepiece_tokenizer.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::data {
namespace {

constexpr const char* kFix =
    "use \"bytes\" or the path of a tokenizer.json or a SentencePiece .model";

constexpr std::uint64_t kLargestFile = 128u << 20;

bool is_json(const std::string& content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string::npos && content[first] == '{';
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  encoder()->encode(text, false, ids);
  return ids;
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name_or_path) {
  if (name_or_path == "bytes") return std::make_unique<ByteTokenizer>();
  std::error_code why;
  if (!std::filesystem::exists(name_or_path, why)) {
    throw DataError(say("tokenizer ", name_or_path, ": there is no such file; ", kFix));
  }
  std::string content;
  try {
    content = read_text(name_or_path, kLargestFile);
  } catch (const EnvironmentError& error) {
    throw DataError(say("tokenizer: ", error.what(), "; ", kFix));
  }
  if (content.empty()) throw DataError(say("tokenizer ", name_or_path, ": is empty; ", kFix));
  if (is_json(content)) return std::make_unique<BpeTokenizer>(name_or_path, content);
  return std::make_unique<SentencePieceTokenizer>(name_or_path, content);
}

}  // namespace trireme::data
