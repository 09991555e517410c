#include "trainer/convert/huggingface/tokenizer_config_json.h"

#include <string>

#include "data/sentencepiece_tokenizer.h"
#include "model/base/file.h"

namespace trireme {
namespace {

using nlohmann::ordered_json;

ordered_json of_sentencepiece(const data::SentencePieceTokenizer& tokenizer, std::int64_t longest) {
  const bool exact = tokenizer.lossless();
  auto config = needs_tokenizer_json(tokenizer)
                    ? ordered_json{{"tokenizer_class", "PreTrainedTokenizerFast"}}
                    : ordered_json{{"tokenizer_class", "LlamaTokenizer"},
                                   {"add_bos_token", false},
                                   {"add_eos_token", false},
                                   {"add_prefix_space", !exact},
                                   {"legacy", !exact}};
  config["clean_up_tokenization_spaces"] = false;
  config["model_max_length"] = longest;
  const std::string end = tokenizer.end_piece(), unknown = tokenizer.unknown_piece();
  if (!end.empty()) config["bos_token"] = config["eos_token"] = end;
  if (!unknown.empty()) config["unk_token"] = unknown;
  return config;
}

// Text of a token id in the file, or "".
std::string added_token(const std::string& path, std::int32_t id) {
  const auto file = ordered_json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
  if (!file.is_object() || !file.contains("added_tokens")) return "";
  for (const auto& token : file["added_tokens"]) {
    if (token.value("id", -1) == id) return token.value("content", "");
  }
  return "";
}

}  // namespace

bool needs_tokenizer_json(const data::SentencePieceTokenizer& model) {
  return model.puts_space_before() || (model.lossless() && !model.is_bpe());
}

ordered_json tokenizer_config_json(const data::Tokenizer& tokenizer, ordered_json given,
                                   std::int64_t longest) {
  if (const auto* model = dynamic_cast<const data::SentencePieceTokenizer*>(&tokenizer)) {
    return given.empty() ? of_sentencepiece(*model, longest) : given;
  }
  // Without a class, transformers selects pre-tokenization by model family.
  if (!given.contains("tokenizer_class")) given["tokenizer_class"] = "PreTrainedTokenizerFast";
  if (!given.contains("clean_up_tokenization_spaces")) {
    given["clean_up_tokenization_spaces"] = false;
  }
  if (!given.contains("model_max_length")) given["model_max_length"] = longest;
  const std::string end = added_token(tokenizer.path(), tokenizer.end_of_document());
  for (const char* key : {"bos_token", "eos_token"}) {
    if (!end.empty() && !given.contains(key)) given[key] = end;
  }
  return given;
}

}  // namespace trireme
