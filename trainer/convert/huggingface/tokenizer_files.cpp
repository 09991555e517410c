#include "trainer/convert/huggingface/tokenizer_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "data/bpe/byte_alphabet.h"
#include "data/bpe/tiktoken.h"
#include "data/sentencepiece_tokenizer.h"
#include "model/base/error.h"
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

data::TokenizerJson read_tiktoken(const data::Tokenizer& tokenizer) {
  return data::parse_tiktoken(tokenizer.path(), read_text(tokenizer.path()));
}

// Text of the end of document, or "".
std::string end_token(const data::Tokenizer& tokenizer) {
  const std::string path = tokenizer.path();
  const std::int32_t id = tokenizer.end_of_document();
  if (is_tiktoken(tokenizer)) {
    for (const data::AddedToken& token : read_tiktoken(tokenizer).added) {
      if (token.id == id) return token.content;
    }
    return "";
  }
  const auto file = ordered_json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
  if (!file.is_object() || !file.contains("added_tokens")) return "";
  for (const auto& token : file["added_tokens"]) {
    if (token.value("id", -1) == id) return token.value("content", "");
  }
  return "";
}

constexpr const char* kEnd = "<|endoftext|>";

std::string spelled(std::string_view bytes) {
  std::string token;
  for (const char c : bytes) token += data::alphabet_character(static_cast<unsigned char>(c));
  return token;
}

ordered_json added_json(std::int64_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

ordered_json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

ordered_json byte_level_json(const ordered_json& added, const ordered_json& pre_tokenizer,
                             bool ignore_merges, const ordered_json& vocab,
                             const ordered_json& merges) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer},
          {"post_processor", nullptr},
          {"decoder", byte_level()},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", ignore_merges},
            {"vocab", vocab},
            {"merges", merges}}}};
}

using Piece = data::SentencePieceTokenizer::Piece;

// Ranking merges by piece score reproduces the merge order of the SentencePiece library.
ordered_json merges_of(const std::vector<Piece>& pieces) {
  std::unordered_map<std::string, std::size_t> ids;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (!pieces[id].is_special) ids.emplace(pieces[id].text, id);
  }
  std::vector<std::tuple<float, std::size_t, std::size_t>> found;
  for (const auto& [text, id] : ids) {
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      found.emplace_back(-pieces[id].score, left->second, right->second);
    }
  }
  std::sort(found.begin(), found.end());
  ordered_json merges = ordered_json::array();
  for (const auto& [rank, left, right] : found) {
    merges.push_back({pieces[left].text, pieces[right].text});
  }
  return merges;
}

ordered_json model_of(const data::SentencePieceTokenizer& tokenizer,
                      const std::vector<Piece>& pieces) {
  const bool spells_bytes = std::any_of(pieces.begin(), pieces.end(),
                                        [](const Piece& piece) { return piece.text == "<0x00>"; });
  const std::string unknown = tokenizer.unknown_piece();
  if (tokenizer.is_bpe()) {
    auto vocab = ordered_json::object();
    for (std::size_t id = 0; id < pieces.size(); ++id) vocab[pieces[id].text] = id;
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", unknown},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", true},
            {"byte_fallback", spells_bytes},
            {"vocab", vocab},
            {"merges", merges_of(pieces)}};
  }
  ordered_json vocab = ordered_json::array();
  ordered_json unknown_id;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].text == unknown) unknown_id = id;
    vocab.push_back({pieces[id].text, pieces[id].score});
  }
  return {{"type", "Unigram"},
          {"unk_id", unknown_id},
          {"vocab", vocab},
          {"byte_fallback", spells_bytes}};
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
  const std::string end = end_token(tokenizer);
  for (const char* key : {"bos_token", "eos_token"}) {
    if (!end.empty() && !given.contains(key)) given[key] = end;
  }
  return given;
}

void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t end_of_document,
                          std::int64_t longest) {
  ordered_json vocab;
  for (int byte = 0; byte < 256; ++byte) {
    vocab[data::alphabet_character(static_cast<unsigned char>(byte))] = byte;
  }
  const ordered_json tokenizer =
      byte_level_json(ordered_json::array({added_json(end_of_document, kEnd)}), byte_level(),
                      /*ignore_merges=*/false, vocab, ordered_json::array());
  replace_text(folder / "tokenizer.json", tokenizer.dump(1) + "\n");
  const ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                               {"bos_token", kEnd},
                               {"eos_token", kEnd},
                               {"clean_up_tokenization_spaces", false},
                               {"model_max_length", longest}};
  replace_text(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

bool is_tiktoken(const data::Tokenizer& tokenizer) {
  return tokenizer.name() == "tiktoken";
}

ordered_json tiktoken_json(const data::Tokenizer& tokenizer) {
  data::TokenizerJson file = read_tiktoken(tokenizer);
  auto vocab = ordered_json::object();
  for (const std::int32_t id : file.words) vocab[spelled(*file.texts[id])] = id;
  std::sort(file.merges.begin(), file.merges.end(), [](const auto& a, const auto& b) {
    return std::tie(a.rank, a.left, a.right) < std::tie(b.rank, b.left, b.right);
  });
  auto merges = ordered_json::array(), added = ordered_json::array();
  for (const auto& merge : file.merges) {
    merges.push_back({spelled(*file.texts[merge.left]), spelled(*file.texts[merge.right])});
  }
  // The tokenizers library numbers added tokens without gaps.
  for (std::size_t id = file.words.size(); id < file.texts.size(); ++id) {
    added.push_back(added_json(static_cast<std::int64_t>(id),
                               file.texts[id].value_or(say("<|unused_", id, "|>"))));
  }
  const ordered_json split = {{"type", "Split"},
                              {"pattern", {{"Regex", file.pre_tokenizer.splits[0].pattern.text}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  const ordered_json both = {{"type", "Sequence"}, {"pretokenizers", {split, byte_level()}}};
  return byte_level_json(added, both, /*ignore_merges=*/true, vocab, merges);
}

ordered_json sentencepiece_json(const data::SentencePieceTokenizer& tokenizer) {
  const std::vector<Piece> pieces = tokenizer.pieces();
  const std::string mark(data::kSpaceMark);
  const ordered_json spaces = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}};
  ordered_json normalizers = ordered_json::array();
  ordered_json decoders = {{{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
                           {{"type", "ByteFallback"}},
                           {{"type", "Fuse"}}};
  if (tokenizer.puts_space_before()) {
    normalizers.push_back({{"type", "Prepend"}, {"prepend", mark}});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back(spaces);
  ordered_json added = ordered_json::array();
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (!pieces[id].is_special) continue;
    added.push_back(added_json(static_cast<std::int64_t>(id), pieces[id].text));
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
          {"model", model_of(tokenizer, pieces)}};
}

}  // namespace trireme
