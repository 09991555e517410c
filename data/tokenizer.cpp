#include "data/tokenizer.h"

#include <filesystem>

#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tiktoken.h"
#include "data/byte_tokenizer.h"
#include "data/sentencepiece_tokenizer.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::data {
namespace {

constexpr const char* kFix =
    "use \"bytes\" or the path of a tokenizer.json, a SentencePiece .model, a tiktoken file or a "
    "Hugging Face folder";

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

namespace {

std::unique_ptr<Tokenizer> open_file(const std::string& path) {
  std::string content;
  try {
    content = read_text(path, kLargestFile);
  } catch (const EnvironmentError& error) {
    throw DataError(say("tokenizer: ", error.what(), "; ", kFix));
  }
  if (content.empty()) throw DataError(say("tokenizer ", path, ": is empty; ", kFix));
  if (is_json(content)) return std::make_unique<BpeTokenizer>(path, content);
  if (is_tiktoken(content)) {
    return std::make_unique<BpeTokenizer>(path, content, BpeTokenizer::Format::kTiktoken);
  }
  return std::make_unique<SentencePieceTokenizer>(path, content);
}

std::unique_ptr<Tokenizer> open_folder(const std::filesystem::path& folder) {
  const auto fast = folder / "tokenizer.json", model = folder / "tokenizer.model";
  std::error_code why;
  const bool has_model = std::filesystem::exists(model, why);
  if (!std::filesystem::exists(fast, why)) {
    if (has_model) return open_file(model.string());
    throw DataError(say("tokenizer ", folder.string(),
                        ": the folder holds neither tokenizer.json nor tokenizer.model; ", kFix));
  }
  try {
    return open_file(fast.string());
  } catch (const DataError&) {
    // The tokenizer.json was converted from the .model, in an unsupported form.
    if (!has_model) throw;
    return open_file(model.string());
  }
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name_or_path) {
  if (name_or_path == "bytes") return std::make_unique<ByteTokenizer>();
  std::error_code why;
  if (!std::filesystem::exists(name_or_path, why)) {
    throw DataError(say("tokenizer ", name_or_path, ": no such file; ", kFix));
  }
  return std::filesystem::is_directory(name_or_path, why) ? open_folder(name_or_path)
                                                          : open_file(name_or_path);
}

}  // namespace trireme::data
