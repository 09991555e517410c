#include "data/tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "data/byte_tokenizer.h"
#include "data/sentencepiece_tokenizer.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::data {
namespace {

constexpr const char* kFix = "use \"bytes\" or the path of a SentencePiece .model";

bool ends_with(const std::string& text, std::string_view tail) {
  return text.size() >= tail.size() &&
         text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

// A first look, because SentencePiece takes a foreign file for a damaged model.
void refuse_json(const std::string& path, const std::string& content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  const bool json = ends_with(path, ".json") || (first != std::string::npos &&
                                                 (content[first] == '{' || content[first] == '['));
  if (!json) return;
  throw DataError(say(path, ": Hugging Face's tokenizer.json cannot be read yet; ", kFix));
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
    content = read_text(name_or_path);
  } catch (const EnvironmentError& error) {
    throw DataError(say("tokenizer: ", error.what(), "; ", kFix));
  }
  if (content.empty()) throw DataError(say("tokenizer ", name_or_path, ": is empty; ", kFix));
  refuse_json(name_or_path, content);
  return std::make_unique<SentencePieceTokenizer>(name_or_path, content);
}

}  // namespace trireme::data
