#include <gtest/gtest.h>

#include <numeric>

#include "data/datatrove_shard.h"
#include "data/headed_shard.h"
#include "data/indexed_dataset_writer.h"
#include "data/open_tokens.h"
#include "data/sequencer.h"
#include "model/base/error.h"
#include "tests/data/image.h"

namespace trireme::data {
namespace {

const std::vector<std::int32_t> kIds{5, 0, 65535, 7, 9, 11};

template <class T>
std::string as(const std::vector<std::int32_t>& ids) {
  return token_image(std::vector<T>(ids.begin(), ids.end()));
}

// A header of 1024 bytes that begins with these numbers.
std::string header(std::vector<std::int32_t> numbers) {
  numbers.resize(256);
  return token_image(numbers);
}
std::string llmc(std::int32_t magic, std::int32_t version, std::int32_t tokens) {
  return header({magic, version, tokens});
}
std::string llmq(std::vector<std::int32_t> numbers) {
  std::string image = header({0, 0});
  const std::string fields = token_image(numbers);
  image.replace(0, 8, "BIN.TOK\n").replace(8, fields.size(), fields);
  return image;
}

void expect_ids(const TokenStream& stream, const std::vector<std::int32_t>& ids) {
  ASSERT_EQ(stream.tokens(), static_cast<std::int64_t>(ids.size()));
  std::vector<std::int32_t> read(ids.size());
  stream.read(0, read);
  EXPECT_EQ(read, ids);
}

std::string shard_complaint(const std::string& image) {
  return complaint<DataError>([&] { HeadedShard(as_bytes(image), "x.bin"); });
}

TEST(TokenFormats, shards_of_llmc_and_llmq_are_one_document_each) {
  const Folder folder;
  const std::pair<std::string, const char*> images[] = {
      {llmc(20240520, 1, 6) + as<std::uint16_t>(kIds), "llm.c"},
      {llmc(20240801, 7, 6) + as<std::uint32_t>(kIds), "llm.c"},
      {llmq({1, 4, 6}) + as<std::int32_t>(kIds), "LLM.Q"},
      {llmq({2, 4, 6, 70000, 0}) + as<std::int32_t>(kIds), "LLM.Q"}};
  for (const auto& [image, format] : images) {
    const auto stream = open_tokens(folder.write("x.bin", image));
    EXPECT_STREQ(stream->format(), format);
    expect_ids(*stream, kIds);
    EXPECT_EQ(stream->documents(), 1);
    EXPECT_EQ(stream->document_begin(1), 6);
    EXPECT_EQ(stream->find_outside(65535, 0, 6), 2);
    EXPECT_EQ(complaint<DataError>([&] {
                stream->check_ids(65535, 0, 6);
              }).substr(folder.write("x.bin", image).size()),
              ": document 0, token 2 has the id 65535, but the model's vocab_size is 65535: set "
              "model.vocab_size to at least the tokenizer's, or tokenize with the model's "
              "tokenizer");
  }
}

TEST(TokenFormats, a_header_that_says_something_else_is_refused) {
  const std::string ids = as<std::uint16_t>(kIds);
  EXPECT_EQ(shard_complaint(llmc(20240520, 1, 6) + ids), "");
  EXPECT_TRUE(has(shard_complaint("BIN.TOK\n"), "is cut off: 8 bytes"));
  EXPECT_TRUE(has(shard_complaint(llmc(1, 1, 6) + ids), "neither llm.c nor LLM.Q"));
  EXPECT_TRUE(has(shard_complaint(llmc(20240522, 1, 6) + ids), "multiple-choice questions"));
  EXPECT_TRUE(has(shard_complaint(llmc(20240520, 7, 6) + ids), "has version 7 of llm.c's"));
  for (const std::int32_t forged : {-1, 5, 7, INT32_MAX, INT32_MIN}) {
    EXPECT_TRUE(has(shard_complaint(llmc(20240520, 1, forged) + ids), "has 12 bytes after"));
    EXPECT_TRUE(
        has(shard_complaint(llmq({1, 4, forged}) + as<std::int32_t>(kIds)), "the header says"));
  }
  EXPECT_TRUE(has(shard_complaint(llmc(20240520, 1, 6) + ids + "x"), "has 13 bytes after"));
  EXPECT_TRUE(has(shard_complaint(llmq({3, 4, 6})), "has version 3 of LLM.Q's"));
  EXPECT_TRUE(has(shard_complaint(llmq({2, 2, 6})), "has 2 bytes per token"));
  EXPECT_TRUE(has(shard_complaint(llmq({2, 4, 6, 9, 1}) + as<std::int32_t>(kIds)), "mask"));
}

TEST(TokenFormats, a_shard_of_datatrove_has_its_documents_from_its_index) {
  const Folder folder;
  const std::string bounds = token_image(std::vector<std::uint64_t>{2, 2, 6});
  folder.write("x.ds.index", bounds);
  for (const std::string& tokens : {as<std::uint16_t>(kIds), as<std::uint32_t>(kIds)}) {
    const auto stream = open_tokens(folder.write("x.ds", tokens));
    expect_ids(*stream, kIds);
    ASSERT_EQ(stream->documents(), 3);
    EXPECT_EQ(stream->document_size(0), 2);
    EXPECT_EQ(stream->document_size(1), 0);
    EXPECT_EQ(stream->document_at(2), 2);
  }
  const auto about = [&](const std::vector<std::uint64_t>& ends, const std::string& tokens) {
    const std::string index = token_image(ends);
    return complaint<DataError>([&] { DatatroveShard(as_bytes(index), as_bytes(tokens), "x.ds"); });
  };
  EXPECT_EQ(about({}, ""), "");
  EXPECT_TRUE(has(about({2, 1, 6}, as<std::uint16_t>(kIds)), "x.ds.index: document 1 ends at 1"));
  for (const std::uint64_t forged : {std::uint64_t{5}, std::uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_TRUE(has(about({2, 2, forged}, as<std::uint16_t>(kIds)), "neither 2 nor 4")) << forged;
  }
  EXPECT_TRUE(has(about({2, 6}, as<std::uint16_t>(kIds) + "x"), "has 13 bytes"));

  const auto path = folder.write("y.ds", as<std::uint16_t>(kIds));
  EXPECT_TRUE(has(complaint<DataError>([&] { open_tokens(path); }), "y.ds.index: no such file"));
  folder.write("x.ds.loss", "111111");
  EXPECT_TRUE(has(complaint<DataError>([&] { open_tokens(folder / "x.ds"); }),
                  "x.ds.loss: is a loss mask"));
}

TEST(TokenFormats, a_star_in_the_name_makes_one_stream_of_many_shards) {
  const Folder folder;
  folder.write("s/t_2.bin", llmc(20240520, 1, 2) + as<std::uint16_t>({3, 4}));
  folder.write("s/t_1.bin", llmc(20240801, 7, 3) + as<std::uint32_t>({0, 1, 2}));
  folder.write("s/t_3.bin", llmq({1, 4, 0}));
  folder.write("s/t_4.bin", llmq({1, 4, 1}) + as<std::int32_t>({99}));
  folder.write("s/other", "");
  const auto stream = open_tokens(folder / "s/t_*.bin");
  expect_ids(*stream, {0, 1, 2, 3, 4, 99});
  ASSERT_EQ(stream->documents(), 4);
  for (const std::int64_t at : {0, 2, 3, 4, 5}) {
    const std::int64_t document = at < 3 ? 0 : at < 5 ? 1 : 3;
    EXPECT_EQ(stream->document_at(at), document);
    EXPECT_EQ(stream->token(at), at < 5 ? at : 99);
  }
  std::vector<std::int32_t> part(4);
  stream->read(1, part);
  EXPECT_EQ(part, (std::vector<std::int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(stream->find_outside(99, 0, 5), std::nullopt);
  EXPECT_EQ(stream->find_outside(99, 0, 6), 5);
  EXPECT_EQ(stream->find_outside(2, 2, 6), 2);
  EXPECT_TRUE(
      has(complaint<DataError>([&] { open_tokens(folder / "s/u_*.bin"); }), "no file matches"));
}

TEST(TokenFormats, training_reads_them_as_it_reads_a_pair) {
  const Folder folder;
  std::vector<std::int32_t> ids(301);
  std::iota(ids.begin(), ids.end(), 0);
  IndexedDatasetWriter writer(folder / "pair", TokenType::kU16);
  writer.append(ids);
  writer.end_document();
  writer.finish();
  folder.write("shard.bin", llmc(20240520, 1, 301) + as<std::uint16_t>(ids));
  const SequenceSpec sequence{.seq_len = 10, .seed = 5, .vocab_size = 301};
  const SampleSource pair({{.prefix = folder / "pair"}}, sequence);
  const SampleSource shard({{.prefix = folder / "shard.bin"}}, sequence);
  SequenceSpec masked = sequence;
  masked.document_mask = true;
  EXPECT_TRUE(
      has(complaint<DataError>([&] { SampleSource({{.prefix = folder / "shard.bin"}}, masked); }),
          "shard.bin: files of llm.c have no document boundaries"));
  for (std::uint64_t sample = 0; sample < 60; ++sample) {
    std::vector<std::int32_t> a(40), b(40);
    pair.fill(sample, TokenBatch::in(a, 1, 10));
    shard.fill(sample, TokenBatch::in(b, 1, 10));
    EXPECT_EQ(a, b);
  }
}

}  // namespace
}  // namespace trireme::data
