#include "trainer/convert/huggingface/sentencepiece_json.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace trireme {
namespace {

using nlohmann::ordered_json;
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
    added.push_back({{"id", id},
                     {"content", pieces[id].text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
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
