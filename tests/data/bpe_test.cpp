#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/bpe/byte_alphabet.h"
#include "data/bpe/merges.h"
#include "data/bpe/pattern.h"
#include "data/bpe/tokenizer_json.h"
#include "data/tokenizer.h"
#include "model/base/error.h"
#include "model/base/philox.h"
#include "tests/data/image.h"

namespace trireme::data {
namespace {

using namespace std::string_literals;
using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const std::string kLlamaPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

json added(std::int32_t id, const std::string& content, bool strips = false) {
  return {{"id", id},         {"content", content},  {"single_word", false}, {"lstrip", strips},
          {"rstrip", strips}, {"normalized", false}, {"special", true}};
}

// A byte is its own id; 256 on are merges, then an end of document. GPT-2's form.
json gpt2() {
  json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[alphabet_character(static_cast<unsigned char>(byte))] = byte;
  }
  json merges;
  std::int32_t next = 256;
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
           {"t", "h"}, {"th", "e"}, {"\u0120", "the"}, {"a", "a"}, {"aa", "aa"}, {"i", "n"}}) {
    vocabulary[left + right] = next++;
    merges.push_back({left, right});
  }
  return {{"version", "1.0"},
          {"added_tokens", {added(next, "<|endoftext|>")}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
}

json llama() {
  json file = gpt2();
  const json split{{"type", "Split"},
                   {"pattern", {{"Regex", kLlamaPattern}}},
                   {"behavior", "Isolated"},
                   {"invert", false}};
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {split, {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  file["model"]["ignore_merges"] = true;
  return file;
}

class BpeTokenizerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Tokenizer> open(const json& file) {
    return open_tokenizer(folder_.write("tokenizer.json", file.dump()));
  }
  std::string refusal(const json& file) {
    return complaint<DataError>([&] { open(file); });
  }
  Folder folder_;
};

TEST_F(BpeTokenizerTest, merges_go_by_rank_and_the_leftmost_first) {
  const auto tokenizer = open(gpt2());
  EXPECT_EQ(tokenizer->vocab_size(), 263);
  EXPECT_EQ(tokenizer->end_of_document(), 262);
  EXPECT_EQ(tokenizer->encode("the the"), (Ids{257, 258}));
  EXPECT_EQ(tokenizer->encode("aaaaaaa"), (Ids{260, 259, 'a'}));
  EXPECT_EQ(tokenizer->encode("in<|endoftext|> the"), (Ids{261, 262, 258}));
  EXPECT_EQ(tokenizer->encode("\xFF the"), (Ids{255, 258}));
  EXPECT_EQ(tokenizer->decode(Ids{261, 262, 258}), "in the");
  EXPECT_THROW(tokenizer->decode(Ids{263}), DataError);
}

TEST_F(BpeTokenizerTest, a_word_of_the_vocabulary_is_its_own_id_where_the_file_says_so) {
  json file = llama();
  file["model"]["vocab"]["row"] = 262;  // without a merge that makes it
  file["added_tokens"] = {added(263, "<|endoftext|>")};
  EXPECT_EQ(open(file)->encode("row rows"), (Ids{262, ' ', 'r', 'o', 'w', 's'}));
  file["model"]["ignore_merges"] = false;
  EXPECT_EQ(open(file)->encode("row"), (Ids{'r', 'o', 'w'}));
}

TEST_F(BpeTokenizerTest, both_forms_of_merges_are_one) {
  json file = gpt2();
  const auto pairs = open(file);
  for (json& merge : file["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  EXPECT_EQ(open(file)->encode("the aaaa in"), pairs->encode("the aaaa in"));
}

TEST_F(BpeTokenizerTest, added_tokens_take_the_white_space_they_ask_for) {
  json file = gpt2();
  file["added_tokens"].push_back(added(263, "<x>", true));
  file["added_tokens"].push_back(added(264, "<x>>"));
  EXPECT_EQ(open(file)->encode("a \n\u3000<x>  b<x>>"), (Ids{'a', 263, 'b', 264}));
  EXPECT_FALSE(open(file)->lossless());
}

TEST_F(BpeTokenizerTest, documents_end_with_the_token_that_the_config_beside_names) {
  json file = gpt2();
  file["added_tokens"].push_back(added(263, "</s>"));
  const std::string hash = open(file)->hash();
  EXPECT_EQ(open(file)->end_of_document(), 262);
  folder_.write("tokenizer_config.json", R"({"eos_token": {"content": "</s>"}})");
  EXPECT_EQ(open(file)->end_of_document(), 263);
  EXPECT_NE(open(file)->hash(), hash);
  folder_.write("tokenizer_config.json", "{");
  EXPECT_TRUE(has(refusal(file), "tokenizer_config.json: is not valid JSON"));
}

TEST_F(BpeTokenizerTest, the_end_is_read_from_the_special_tokens_map_and_added_tokens_decoder) {
  json file = gpt2();
  file["added_tokens"].push_back(added(263, "</s>"));
  folder_.write("special_tokens_map.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ(open(file)->end_of_document(), 263);
  folder_.write("tokenizer_config.json", R"({"eos_token": {"content": "<|endoftext|>"}})");
  EXPECT_EQ(open(file)->end_of_document(), 262);
  // A token that tokenizer.json has as a word, and one that it does not have.
  folder_.write("tokenizer_config.json", R"({"eos_token": "the"})");
  EXPECT_EQ(open(file)->end_of_document(), 257);
  const std::string config = R"({"eos_token": "<end>", "added_tokens_decoder": )";
  folder_.write("tokenizer_config.json", config + R"({"265": {"content": "<end>"}}})");
  const auto tokenizer = open(file);
  EXPECT_EQ(tokenizer->end_of_document(), 265);
  EXPECT_EQ(tokenizer->vocab_size(), 266);
  EXPECT_EQ(tokenizer->decode(Ids{'a', 265}), "a");
  folder_.write("tokenizer_config.json", config + R"({"97": {"content": "<end>"}}})");
  EXPECT_TRUE(has(refusal(file), "\"<end>\" has the id 97 in added_tokens_decoder"));
}

TEST_F(BpeTokenizerTest, a_folder_stands_for_its_tokenizer_file) {
  const auto alone = open(gpt2());
  const auto of_folder = open_tokenizer((folder_ / "").string());
  EXPECT_EQ(of_folder->path(), (folder_ / "tokenizer.json").string());
  EXPECT_EQ(of_folder->hash(), alone->hash());
}

std::string random_unicode(std::uint64_t seed) {
  static const std::vector<std::string> parts{
      " ",      "  ",     "\n", "\r\n",       "the",        "\u00A0", "\0"s,   "\xFF"s,
      "\u4F60", "\t",     "in", "aaa",        "\xE2"s,      "'s",     "12345", "e\u0301",
      "<|",     "\u180E", "..", "\U00031350", "\U0001F600", "\u3000"};
  std::string text;
  for (std::uint64_t i = 0; i < 40; ++i) text += parts[philox(seed, i)[0] % parts.size()];
  return text;
}

TEST_F(BpeTokenizerTest, every_text_comes_back_and_may_be_cut_where_it_says) {
  for (const json& file : {gpt2(), llama()}) {
    const auto tokenizer = open(file);
    EXPECT_TRUE(tokenizer->lossless());
    int cuts = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      const std::string text = random_unicode(seed);
      const Ids whole = tokenizer->encode(text);
      EXPECT_EQ(tokenizer->decode(whole), text) << seed;
      const std::size_t cut = tokenizer->last_cut(text);
      ASSERT_LT(cut, text.size());
      cuts += cut > 0 ? 1 : 0;
      const auto encoder = tokenizer->encoder();
      Ids ids;
      encoder->encode(std::string_view(text).substr(0, cut), false, ids);
      encoder->encode(std::string_view(text).substr(cut), cut > 0, ids);
      EXPECT_EQ(ids, whole) << seed;
    }
    EXPECT_GT(cuts, 150);
  }
}

TEST_F(BpeTokenizerTest, a_text_is_brought_to_form_c_where_the_file_says_so) {
  json file = llama();
  file["normalizer"] = {{"type", "NFC"}};
  const auto tokenizer = open(file);
  EXPECT_FALSE(tokenizer->lossless());
  const auto back = [&](const std::string& text) {
    return tokenizer->decode(tokenizer->encode(text));
  };
  EXPECT_EQ(back("e\u0301 \u212B"), "\u00E9 \u00C5");
  EXPECT_EQ(back("\u0301\u0331"), "\u0331\u0301");
  // Hugging Face's library knows no mark that came after Unicode 9.
  for (const char* later : {"\U00010F84\u0331", "\u0301\U00010F84\u0331", "\U00011935\U00011930"}) {
    EXPECT_EQ(back(later), later);
  }
}

TEST_F(BpeTokenizerTest, a_prefix_space_is_put_before_what_begins_without_one) {
  json file = gpt2();
  file["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(open(file)->encode("the the"), (Ids{258, 258}));
  EXPECT_EQ(open(file)->encode(" the"), (Ids{258}));
}

TEST_F(BpeTokenizerTest, what_would_change_ids_and_is_not_implemented_is_named) {
  struct Case {
    std::string place;
    json value;
    std::string part;
  };
  const json odd_token{{"id", 263}, {"content", "<x>"}, {"single_word", true}};
  for (const Case& wrong : std::vector<Case>{
           {"/truncation", {{"max_length", 5}}, "\"truncation\" is not implemented"},
           {"/padding", {{"length", 5}}, "\"padding\" is not implemented"},
           {"/sparse", 1, "\"sparse\" is not implemented"},
           {"/normalizer", {{"type", "Lowercase"}}, "normalizer Lowercase is not implemented"},
           {"/pre_tokenizer/type", "Whitespace", "pre-tokenizer Whitespace is not implemented"},
           {"/pre_tokenizer/more", 1, "pre_tokenizer: \"more\" is not implemented"},
           {"/post_processor", {{"type", "BertProcessing"}}, "post-processor BertProcessing"},
           {"/decoder/type", "WordPiece", "decoder WordPiece is not implemented"},
           {"/decoder/type", "Fuse", "the decoder is not ByteLevel alone"},
           {"/model/type", "Unigram", "model Unigram is not implemented; BPE is"},
           {"/model/dropout", 0.1, "\"dropout\" is not implemented"},
           {"/model/end_of_word_suffix", "</w>", "\"end_of_word_suffix\" is not implemented"},
           {"/model/vocab/the", 3, "two tokens have the id 3"},
           {"/model/vocab/the", -1, "the id -1 is not between 0 and"},
           {"/model/vocab/the", 1u << 30, "is not between 0 and"},
           {"/model/vocab/the", "x", "an id is not an integer"},
           {"/model/merges/0", {"a", "b"}, "merge 1: \"b\" is not in"},
           {"/model/merges/0", "a", "merge 1, \"a\", does not name two tokens"},
           {"/model/merges", nullptr, "\"merges\" is not a list"},
           {"/added_tokens/1", odd_token, "is a \"single_word\""},
           {"/added_tokens/1", added(300, "<x>"), "has the id 300, but Hugging Face's library"},
           {"/added_tokens/1", added(262, "<|endoftext|>"), "comes twice"}}) {
    json file = gpt2();
    if (wrong.part.find("merge 1: ") == 0) file["model"]["vocab"].erase("b");
    file[json::json_pointer(wrong.place)] = wrong.value;
    EXPECT_TRUE(has(refusal(file), wrong.part)) << wrong.place << ": " << refusal(file);
  }
  json file = gpt2();
  file["model"]["vocab"].erase("b");
  file["added_tokens"] = json::array();
  EXPECT_FALSE(open(file)->lossless());
  file["model"]["unk_token"] = "a";
  EXPECT_TRUE(has(refusal(file),
                  "\"unk_token\" and \"byte_fallback\" are not implemented after ByteLevel"));
}

// Llama 2's form: "<0xNN>" are 3 to 258, then characters and merges.
json llama2() {
  json vocabulary{{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = 3 + byte;
  std::int32_t next = 259;
  for (const char* token : {"\u2581", "a", "b", "\u2581a", "\u2581ab", "bb", "\u00E9"}) {
    vocabulary[token] = next++;
  }
  const json spaces{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const json marks{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
  return {{"added_tokens", {added(1, "<s>"), added(2, "</s>")}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers", {{{"type", "Prepend"}, {"prepend", "\u2581"}}, spaces}}}},
          {"pre_tokenizer", nullptr},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {marks,
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocabulary},
            {"merges", {"\u2581 a", "\u2581a b", "b b"}}}}};
}

TEST_F(BpeTokenizerTest, characters_fall_back_to_bytes_and_parts_get_a_prefix) {
  const auto tokenizer = open(llama2());
  EXPECT_EQ(tokenizer->end_of_document(), 2);
  EXPECT_EQ(tokenizer->encode("ab \u00E9\n"), (Ids{263, 259, 265, 3 + '\n'}));
  EXPECT_EQ(tokenizer->encode("a<s>ab"), (Ids{262, 1, 263}));
  EXPECT_EQ(tokenizer->encode("\u0416\xFF"), (Ids{259, 3 + 0xD0, 3 + 0x96, 3 + 0xFF}));
  EXPECT_EQ(tokenizer->decode(Ids{263, 259, 3 + 0xD0, 3 + 0x96}), "ab \u0416");
  EXPECT_EQ(tokenizer->decode(Ids{262, 3 + 0xD0, 260}), "a\uFFFDa");
  EXPECT_FALSE(tokenizer->lossless());
  const auto encoder = tokenizer->encoder();
  Ids ids;
  const std::string text = "ab ab";
  EXPECT_EQ(tokenizer->last_cut(text), 2u);
  EXPECT_EQ(tokenizer->last_cut("ab<s> b"), 0u);  // a prefix follows the token
  encoder->encode("ab", false, ids);
  encoder->encode(" ab", true, ids);
  EXPECT_EQ(ids, tokenizer->encode(text));
}

TEST_F(BpeTokenizerTest, what_a_bpe_of_characters_does_not_implement_is_named) {
  struct Case {
    std::string place;
    json value;
    std::string part;
  };
  const auto metaspace = [](const char* scheme) {
    return json{{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}};
  };
  for (const Case& wrong : std::vector<Case>{
           {"/model/unk_token", "<?>", "unk_token \"<?>\" is not in the vocabulary"},
           {"/decoder", {{"type", "ByteLevel"}}, "the decoder is ByteLevel, but"},
           {"/decoder", nullptr, "has no \"decoder\""},
           {"/decoder/decoders/3/stop", 1, "(\"stop\") is not implemented"},
           {"/decoder/decoders/3/content", "ab", "\"content\" is not one character"},
           {"/normalizer", {{"type", "NFKC"}}, "normalizer NFKC is not implemented"},
           {"/normalizer/normalizers/1/pattern", {{"String", ""}}, "can match the empty text"},
           {"/pre_tokenizer", metaspace("first"), "after a normalizer is not implemented"},
           {"/pre_tokenizer", metaspace("last"), "\"prepend_scheme\" is \"last\""}}) {
    json file = llama2();
    file[json::json_pointer(wrong.place)] = wrong.value;
    EXPECT_TRUE(has(refusal(file), wrong.part)) << wrong.place << ": " << refusal(file);
  }
}

TEST_F(BpeTokenizerTest, a_long_text_without_spaces_is_encoded_in_moments) {
  std::string text;
  for (int i = 0; i < 1 << 19; ++i) text += "ab";
  EXPECT_EQ(open(llama2())->encode(text).size(), (1u << 20) - 1);
}

class TiktokenTest : public ::testing::Test {
 protected:
  static std::string line(const std::string& bytes, int rank) {
    std::string coded;
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
      unsigned held = 0;
      for (std::size_t k = 0; k < 3; ++k) {
        held = held << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
      }
      for (std::size_t k = 0; k < 4; ++k) {
        coded += i + k > bytes.size() ? '=' : kDigits[held >> (18 - 6 * k) & 63u];
      }
    }
    return coded + " " + std::to_string(rank) + "\n";
  }
  static std::string file() {
    std::string content;
    for (int byte = 0; byte < 256; ++byte)
      content += line(std::string(1, static_cast<char>(byte)), byte);
    return content + line("ab", 256) + line("abc", 257) + line("bc", 258);
  }
  Folder folder_;
};

TEST_F(TiktokenTest, ids_are_ranks_then_special_tokens) {
  const auto tokenizer = open_tokenizer(folder_.write("tokenizer.model", file()));
  EXPECT_EQ(tokenizer->name(), "tiktoken");
  EXPECT_EQ(tokenizer->vocab_size(), 259 + 256);
  EXPECT_EQ(tokenizer->end_of_document(), 260);
  EXPECT_TRUE(tokenizer->lossless());
  EXPECT_EQ(tokenizer->encode("abc abcd<|eot_id|>"), (Ids{257, ' ', 257, 'd', 268}));
  EXPECT_EQ(tokenizer->decode(Ids{257, 259}), "abc<|begin_of_text|>");
  folder_.write("tiktoken.json", R"({"encoding": "cl100k_base"})");
  const auto other = open_tokenizer((folder_ / "tokenizer.model").string());
  EXPECT_EQ(other->vocab_size(), 259 + 21);
  EXPECT_NE(other->hash(), tokenizer->hash());
  folder_.write("tiktoken.json", R"({"encoding": "p50k"})");
  EXPECT_TRUE(has(complaint<DataError>([&] { open_tokenizer((folder_ / "").string()); }),
                  "is none of llama3, cl100k_base, o200k_base"));
}

TEST_F(TiktokenTest, a_damaged_line_is_named) {
  const auto said = [&](const std::string& content) {
    return complaint<DataError>([&] { open_tokenizer(folder_.write("t.tiktoken", content)); });
  };
  EXPECT_TRUE(has(said(file() + "x"), "line 260 is not \"base64 rank\""));
  EXPECT_TRUE(has(said(file() + line("ab", 259)), "line 260: the token comes twice"));
  EXPECT_TRUE(has(said(file() + line("abd", 257)), "line 260: the rank 257 comes twice"));
  EXPECT_TRUE(
      has(said(file() + line("abd", 260)), "line 260: the rank 260 is beyond the 260 lines"));
  EXPECT_TRUE(has(said("YWI= 0\n"), "has no token of the byte 0"));
}

TEST_F(BpeTokenizerTest, a_file_too_large_for_a_tokenizer_is_refused_before_it_is_parsed) {
  const auto said = [&](const std::string& text) {
    return complaint<DataError>([&] { open_tokenizer(folder_.write("t.json", text)); });
  };
  EXPECT_TRUE(has(said("{\"a\":" + std::string(100000, '[')), "is nested too deeply"));
  EXPECT_TRUE(has(said("{\"a\":[" + std::string(5000000, ',')), "has more than 4194304 values"));
  EXPECT_TRUE(has(said("{\"a\": \"" + std::string(100, '[')), "is not valid JSON"));
}

TEST(MergeLoopTest, a_long_word_is_merged_in_moments) {
  Merges merges(20);
  for (std::int32_t i = 0; i < 20; ++i) merges.add(i, i, {static_cast<std::uint32_t>(i), i + 1});
  Ids word((1u << 18) + 1, 0);
  MergeLoop(merges).run(word);
  EXPECT_EQ(word, (Ids{18, 0}));
}

TEST(PatternTest, what_two_engines_read_in_different_ways_is_refused) {
  for (const char* pattern :
       {kGpt2Pattern, kLlamaPattern.c_str(), R"([\p{Han}\x{3042}-\u3096]+)",
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)", R"(\p{^L}++)"}) {
    EXPECT_NO_THROW(Pattern(pattern, Pattern::Kind::kRegex)) << pattern;
  }
  EXPECT_EQ(to_pcre2(R"(\p{Han}\p{Lu})"), R"(\p{sc:Han}\p{Lu})");
  EXPECT_EQ(to_pcre2(R"(\s+$|[$]\$)"), R"(\s+(?m:$)|[$]\$)");
  for (const char* pattern :
       {R"(\w+)", R"(\bx)", "^a", "[a[bc]]", "[a&&b]", "(?i)a", "(*ANY)a", "a{,3}", "a{2}+",
        R"(\h)", R"(\xE9)", R"(\pL)", "[]a]", "(?m:a)", R"(\)"}) {
    EXPECT_TRUE(has(complaint<DataError>([&] { to_pcre2(pattern); }), "not known to mean the same"))
        << pattern;
  }
  for (const char* pattern : {"(", "a**)", "a*", "", R"(\p{Klingon})"}) {
    EXPECT_THROW(Pattern(pattern, Pattern::Kind::kRegex), DataError) << pattern;
  }
}

}  // namespace
}  // namespace trireme::data
