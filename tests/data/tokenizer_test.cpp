#include "data/tokenizer.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <string>
#include <vector>

#include "data/sentencepiece_tokenizer.h"
#include "data/sentencepiece_trainer.h"
#include "data/utf8.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/philox.h"
#include "tests/data/image.h"

namespace trireme::data {
namespace {

using namespace std::string_literals;

const std::vector<std::string>& nasty_texts() {
  static const std::vector<std::string> texts{
      "",
      " ",
      "   ",
      "\n",
      "\n\n\n",
      "\t",
      "a",
      " a",
      "a ",
      "  two  spaces  inside  ",
      "tabs\tand\t\ttabs",
      "lines\nand\r\nother\rlines\n\n  indented\n",
      " \n \n ",
      "caf\u00E9 \u00DF \u4F60\u597D \U0001F600 \u05E9\u05DC\u05D5\u05DD",
      "e\u0301 \uFB01 \u00BD \uFF21 \u00A0\u3000\u200B\uFEFF",
      "the mark \u2581 itself\u2581\u2581 \u2581",
      " \u2047 <unk> </s> <s> <0x0A>",
      "nul\0nul\0"s,
      "not utf-8: \xFF\xFE \xC3( \xE2\x82 \xED\xA0\x80 \xF8\x88\x80\x80\x80 \x80"s,
      "\xE2"s,
      "cut off \xF0\x9F\x98"s,
      std::string(500, ' '),
      std::string(500, 'x') + " " + std::string(70, '\n') + "y",
      "numbers 1234567890 3.14159 v1.2.3",
  };
  return texts;
}

std::string random_text(std::uint64_t seed) {
  static const std::vector<std::string> parts{
      " ",  "  ", "\n",  "a",     "the",   "\u2581", "\0"s,   "\xFF"s, "\u4F60",
      "\t", "in", "ing", "\xE2"s, "\x96"s, "\x81"s,  "\xC3"s, "<0x0A>"};
  std::string text;
  for (std::uint64_t i = 0; i < 40; ++i) text += parts[philox(seed, i)[0] % parts.size()];
  return text;
}

// Made-up prose with indentation, so that runs of spaces become pieces.
std::string word(std::uint64_t number) {
  static const std::vector<std::string> syllables{
      "the", "in",  "spr", "ing", "tra",       "mo", "del", "ov", "er", "and",
      "row", "tri", "re",  "me",  "caf\u00E9", "42", "ka",  "lo", "su", "ne"};
  std::string text;
  for (std::uint64_t i = 0; i < 1 + number % 4; ++i) {
    text += syllables[philox(3, number, i)[0] % syllables.size()];
  }
  return text;
}
std::string corpus() {
  std::string text;
  for (std::uint64_t line = 0; line < 3000; ++line) {
    text += std::string(philox(1, line)[0] % 9, ' ');
    for (std::uint64_t i = 0; i < 8; ++i) {
      text += word(philox(2, 8 * line + i)[0] % 500);
      text += i < 7 ? ' ' : '\n';
    }
  }
  return text;
}

class SentencePieceTokenizerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    const auto inputs = find_inputs({folder_->write("corpus.txt", corpus())}).files;
    train_sentencepiece(inputs, {.vocab_size = 400}, *folder_ / "v.model", [](const auto&) {});
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string model() { return (*folder_ / "v.model").string(); }

  // A model by the library's own flags.
  static std::string train(const std::string& name, const std::string& flags) {
    folder_->write("lines.txt", corpus());
    const std::string prefix = (*folder_ / name).string();
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        "--minloglevel=2 --input=" + (*folder_ / "lines.txt").string() +
        " --model_prefix=" + prefix + " " + flags);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return prefix + ".model";
  }

  static std::vector<std::int32_t> library_ids(const std::string& path, const std::string& text) {
    sentencepiece::SentencePieceProcessor library;
    EXPECT_TRUE(library.Load(path).ok());
    const auto ids = library.EncodeAsIds(text);
    return {ids.begin(), ids.end()};
  }

  static Folder* folder_;
};
Folder* SentencePieceTokenizerTest::folder_ = nullptr;

TEST(ByteTokenizerTest, every_text_comes_back) {
  const auto tokenizer = open_tokenizer("bytes");
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_EQ(tokenizer->end_of_document(), 256);
  for (const std::string& text : nasty_texts()) {
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(ids.size(), text.size());
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
  EXPECT_EQ(tokenizer->encode("a\xFF"), (std::vector{97, 255}));
  EXPECT_EQ(tokenizer->decode(std::vector{97, 256, 98}), "ab");
  EXPECT_THROW(tokenizer->decode(std::vector{257}), DataError);
  EXPECT_THROW(tokenizer->decode(std::vector{-1}), DataError);
}

TEST_F(SentencePieceTokenizerTest, every_text_comes_back) {
  const auto tokenizer = open_tokenizer(model());
  EXPECT_EQ(tokenizer->vocab_size(), 400);
  EXPECT_TRUE(tokenizer->lossless());
  for (const std::string& text : nasty_texts()) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const std::string text = random_text(seed);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << seed;
  }
}

TEST_F(SentencePieceTokenizerTest, words_give_the_ids_that_the_library_gives_the_whole_text) {
  const auto tokenizer = open_tokenizer(model());
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::string text = random_text(seed);
    // What the library itself would change is left out here.
    std::string kept;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = character_size(std::string_view(text).substr(at));
      if (size > 0 && text.compare(at, 3, "\u2581") != 0) kept += text.substr(at, size);
      at += std::max<std::size_t>(size, 1);
    }
    EXPECT_EQ(tokenizer->encode(kept), library_ids(model(), kept)) << seed;
  }
  EXPECT_EQ(tokenizer->encode(corpus()), library_ids(model(), corpus()));
}

TEST_F(SentencePieceTokenizerTest, a_text_cut_where_it_may_be_gives_the_same_ids) {
  for (const std::string& path :
       {model(), train("llama",
                       "--model_type=bpe --vocab_size=400 --byte_fallback "
                       "--normalization_rule_name=identity "
                       "--remove_extra_whitespaces=false "
                       "--allow_whitespace_only_pieces")}) {
    const auto tokenizer = open_tokenizer(path);
    int cuts = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const std::string text = random_text(seed);
      const std::size_t cut = tokenizer->last_cut(text);
      ASSERT_LT(cut, text.size());
      cuts += cut > 0 ? 1 : 0;
      const auto encoder = tokenizer->encoder();
      std::vector<std::int32_t> ids;
      encoder->encode(std::string_view(text).substr(0, cut), false, ids);
      encoder->encode(std::string_view(text).substr(cut), cut > 0, ids);
      EXPECT_EQ(ids, tokenizer->encode(text)) << seed;
    }
    EXPECT_GT(cuts, 150);
  }
}

TEST_F(SentencePieceTokenizerTest, a_model_that_puts_a_space_in_front_agrees_with_the_library) {
  const std::string path = train("prefixed",
                                 "--model_type=bpe --vocab_size=400 --byte_fallback "
                                 "--normalization_rule_name=identity "
                                 "--remove_extra_whitespaces=false --allow_whitespace_only_pieces");
  const auto tokenizer = open_tokenizer(path);
  EXPECT_FALSE(tokenizer->lossless());  // not for U+2581 and broken UTF-8
  for (const std::string& text :
       {corpus().substr(0, 3000), " a  b"s, "a "s, " "s, "\n b\n"s, ""s, "x\n\n y  z"s}) {
    EXPECT_EQ(tokenizer->encode(text), library_ids(path, text)) << text;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST_F(SentencePieceTokenizerTest, a_model_that_changes_text_is_left_to_the_library) {
  const std::string path = train("default", "--vocab_size=60 --model_type=unigram");
  const auto tokenizer = open_tokenizer(path);
  EXPECT_FALSE(tokenizer->lossless());
  EXPECT_EQ(tokenizer->last_cut("a b\nc"), 0u);
  const std::string text = "  the   in\n the";
  EXPECT_EQ(tokenizer->encode(text), library_ids(path, text));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), "the in the");
}

TEST_F(SentencePieceTokenizerTest, a_unigram_model_keeps_text_too) {
  const std::string path =
      train("unigram",
            "--vocab_size=400 --model_type=unigram --byte_fallback --add_dummy_prefix=false "
            "--normalization_rule_name=identity --remove_extra_whitespaces=false "
            "--hard_vocab_limit=false");
  const auto tokenizer = open_tokenizer(path);
  ASSERT_TRUE(tokenizer->lossless());
  for (const std::string& text : nasty_texts()) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST_F(SentencePieceTokenizerTest, training_is_repeatable_and_refuses_the_impossible) {
  const Folder folder;
  const auto inputs = find_inputs({folder.write("corpus.txt", corpus())}).files;
  VocabularySample sample;
  const auto train_again = [&](const VocabularySpec& spec) {
    train_sentencepiece(inputs, spec, folder / "v.model", [&](const auto& seen) { sample = seen; });
  };
  train_again({.vocab_size = 400});
  EXPECT_EQ(read_text(folder / "v.model"), read_text(model()));
  EXPECT_EQ(sample.lines, 3000u);
  train_again({.vocab_size = 300, .sample_bytes = sample.text_bytes / 4});
  EXPECT_NEAR(static_cast<double>(sample.lines), 750, 120);
  const std::string said = complaint<DataError>([&] { train_again({.vocab_size = 100000}); });
  EXPECT_TRUE(has(said, "cannot train a vocabulary of 100000")) << said;
  EXPECT_EQ(open_tokenizer((folder / "v.model").string())->vocab_size(), 300);
}

TEST_F(SentencePieceTokenizerTest, a_damaged_model_is_refused_or_whole) {
  const Folder folder;
  const std::string content = read_text(model());
  for (std::size_t size = 0; size < content.size(); size += 97) {
    const std::string path = folder.write("cut.model", content.substr(0, size));
    const std::string said = complaint<DataError>([&] { open_tokenizer(path)->encode("a b"); });
    EXPECT_TRUE(said.empty() || has(said, path)) << said;
  }
}

TEST_F(SentencePieceTokenizerTest,
       a_folder_stands_for_its_model_where_its_json_is_not_implemented) {
  const Folder folder;
  std::filesystem::copy_file(model(), folder / "tokenizer.model");
  EXPECT_EQ(open_tokenizer((folder / "").string())->name(), "sentencepiece");
  folder.write("tokenizer.json", R"({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}})");
  EXPECT_EQ(open_tokenizer((folder / "").string())->path(), (folder / "tokenizer.model").string());
}

TEST(OpenTokenizerTest, what_is_no_tokenizer_is_named_with_the_fix) {
  const Folder folder;
  const auto open = [](const std::string& path) {
    return complaint<DataError>([&] { open_tokenizer(path); });
  };
  EXPECT_TRUE(has(open((folder / "none").string()), "no such file"));
  EXPECT_TRUE(has(open((folder / "").string()), "holds neither tokenizer.json nor"));
  EXPECT_TRUE(has(open(folder.write("empty.model", "")), "is empty"));
  EXPECT_TRUE(has(open(folder.write("foreign.model", "hello, I am no model\n")),
                  "is not a SentencePiece model"));
  for (const char* name : {"tokenizer.json", "renamed.model"}) {  // known by its content
    const std::string said = open(folder.write(name, "{\"version\": \"1.0\"}"));
    EXPECT_TRUE(has(said, say(name, ": has no \"decoder\""))) << said;
  }
}

}  // namespace
}  // namespace trireme::data
