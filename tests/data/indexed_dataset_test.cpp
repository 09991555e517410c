#include "data/indexed_dataset.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <limits>
#include <numeric>

#include "data/indexed_dataset_writer.h"
#include "data/sidecar.h"
#include "model/base/error.h"
#include "tests/data/image.h"

namespace trireme::data {
namespace {

// Three documents: two sequences, none, three sequences of which one is empty.
IndexImage small_index() {
  IndexImage index;
  index.lengths = {3, 2, 1, 0, 4};
  index.pointers = {0, 6, 10, 12, 12};
  index.bounds = {0, 2, 2, 5};
  return index;
}
const std::vector<std::uint16_t> kSmallTokens{10, 11, 12, 13, 14, 20, 21, 22, 23, 65499};

std::string complaint_about(const std::string& index, const std::string& tokens) {
  return complaint<DataError>([&] { IndexedDataset(as_bytes(index), as_bytes(tokens), "set"); });
}
std::string complaint_about(const IndexImage& index) {
  return complaint_about(index.bytes(), token_image(kSmallTokens));
}

TEST(IndexedDatasetTest, documents_of_many_sequences_and_of_none_are_read) {
  const std::string index = small_index().bytes();
  const std::string tokens = token_image(kSmallTokens);
  const IndexedDataset dataset(as_bytes(index), as_bytes(tokens), "set");
  ASSERT_EQ(dataset.documents(), 3);
  ASSERT_EQ(dataset.sequences(), 5);
  ASSERT_EQ(dataset.tokens(), 10);
  const std::vector<std::int64_t> begins{0, 5, 5};
  const std::vector<std::int64_t> sizes{5, 0, 5};
  for (int d = 0; d < 3; ++d) {
    EXPECT_EQ(dataset.document_begin(d), begins[d]);
    EXPECT_EQ(dataset.document_size(d), sizes[d]);
  }
  for (std::int64_t at = 0; at < 10; ++at) {
    EXPECT_EQ(dataset.document_at(at), at < 5 ? 0 : 2) << at;
    EXPECT_EQ(dataset.token(at), kSmallTokens[at]);
  }
  std::vector<std::int32_t> ids(10);
  dataset.read(0, ids);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), kSmallTokens.begin()));
}

template <class T>
void expect_type_read(std::uint8_t code, const std::vector<T>& values) {
  IndexImage index;
  index.code = code;
  index.lengths = {static_cast<std::int32_t>(values.size())};
  index.pointers = {0};
  index.bounds = {0, 1};
  const std::string image = index.bytes();
  // At an odd address, where a cast instead of a copy would trap under UBSan.
  const std::string shifted = say("x", token_image(values));
  const IndexedDataset dataset(as_bytes(image), as_bytes(shifted).subspan(1), "set");
  std::vector<std::int32_t> ids(values.size());
  dataset.read(0, ids);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(dataset.token(static_cast<std::int64_t>(i)), static_cast<std::int64_t>(values[i]));
    EXPECT_EQ(ids[i], static_cast<std::int32_t>(values[i]));
  }
}

TEST(IndexedDatasetTest, every_integer_type_is_read) {
  expect_type_read<std::uint8_t>(1, {0, 127, 255});
  expect_type_read<std::int8_t>(2, {0, 127, -128});
  expect_type_read<std::int16_t>(3, {0, 32767, -1});
  expect_type_read<std::int32_t>(4, {0, 1 << 30, -1});
  expect_type_read<std::int64_t>(5, {0, std::int64_t{1} << 40, -1});
  expect_type_read<std::uint16_t>(8, {0, 65535, 1});
}

TEST(IndexedDatasetTest, a_file_cut_anywhere_is_refused) {
  const std::string index = small_index().bytes();
  const std::string tokens = token_image(kSmallTokens);
  for (std::size_t size = 0; size < index.size(); ++size) {
    const std::string said = complaint_about(index.substr(0, size), tokens);
    EXPECT_TRUE(has(said, "set.idx")) << size << ": " << said;
  }
  for (std::size_t size = 0; size < tokens.size(); ++size) {
    const std::string said = complaint_about(index, tokens.substr(0, size));
    EXPECT_TRUE(has(said, "set.bin")) << size << ": " << said;
  }
}

TEST(IndexedDatasetTest, every_wrong_field_is_named) {
  EXPECT_EQ(complaint_about(small_index()), "");
  IndexImage index = small_index();
  index.magic[0] = 'X';
  EXPECT_TRUE(has(complaint_about(index), "not a Megatron index"));
  index = small_index();
  index.version = 2;
  EXPECT_TRUE(has(complaint_about(index), "version 2"));
  for (const int code : {6, 7}) {
    index = small_index();
    index.code = static_cast<std::uint8_t>(code);
    EXPECT_TRUE(has(complaint_about(index), "floating-point"));
  }
  for (const int code : {0, 9, 255}) {
    index = small_index();
    index.code = static_cast<std::uint8_t>(code);
    EXPECT_TRUE(has(complaint_about(index), "type code " + std::to_string(code)));
  }
  index = small_index();
  index.lengths[1] = -2;
  EXPECT_TRUE(has(complaint_about(index), "sequence 1 has the length -2"));
  index = small_index();
  index.lengths[4] = std::numeric_limits<std::int32_t>::max();
  EXPECT_TRUE(has(complaint_about(index), "set.bin: is truncated"));
  index = small_index();
  index.pointers[2] = 8;
  EXPECT_TRUE(has(complaint_about(index), "sequence 2 begins at byte 8"));
  for (const std::int64_t forged : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min()}) {
    index = small_index();
    index.pointers[4] = forged;
    EXPECT_TRUE(has(complaint_about(index), "sequence 4 begins at byte")) << forged;
    index = small_index();
    index.bounds[1] = forged;
    EXPECT_TRUE(has(complaint_about(index), "document bound 1")) << forged;
  }
  index = small_index();
  index.bounds = {0, 4, 2, 5};
  EXPECT_TRUE(has(complaint_about(index), "document bound 2 is 2"));
  index = small_index();
  index.bounds = {1, 2, 2, 5};
  EXPECT_TRUE(has(complaint_about(index), "document bound 0 is 1"));
  index = small_index();
  index.bounds.back() = 4;
  EXPECT_TRUE(has(complaint_about(index), "ends at sequence 4 of 5"));
  index = small_index();
  index.bounds.clear();
  EXPECT_TRUE(has(complaint_about(index), "no document bounds"));
}

TEST(IndexedDatasetTest, forged_counts_do_not_overflow_their_way_in) {
  for (const std::int64_t forged :
       {std::int64_t{1}, std::int64_t{-1}, std::int64_t{1} << 62,
        std::numeric_limits<std::int64_t>::max(), std::int64_t{0x1555555555555555}}) {
    IndexImage index = small_index();
    index.more_sequences = forged;
    EXPECT_TRUE(has(complaint_about(index), "set.idx")) << forged;
    index = small_index();
    index.more_bounds = forged;
    EXPECT_TRUE(has(complaint_about(index), "set.idx")) << forged;
  }
}

TEST(IndexedDatasetTest, tokens_of_another_index_are_refused) {
  std::vector<std::uint16_t> more = kSmallTokens;
  more.push_back(1);
  EXPECT_TRUE(
      has(complaint_about(small_index().bytes(), token_image(more)), "do not belong together"));
}

TEST(IndexedDatasetTest, missing_files_are_named_with_the_fix) {
  const Folder folder;
  const std::string missing = complaint<DataError>([&] { IndexedDataset(folder / "none"); });
  EXPECT_TRUE(has(missing, "none.idx: no such file")) << missing;
  EXPECT_TRUE(has(missing, "trireme tokenize")) << missing;
  folder.write("half.idx", small_index().bytes());
  EXPECT_TRUE(has(complaint<DataError>([&] { IndexedDataset(folder / "half"); }),
                  "half.bin: no such file"));
}

TEST(IndexedDatasetTest, the_first_id_outside_a_vocabulary_is_found) {
  // Longer than a block of the scan, with the fault at every interesting place.
  std::vector<std::int32_t> values(40000, 7);
  IndexImage index;
  index.code = 4;
  index.lengths = {39000, 1000};
  index.pointers = {0, 4 * 39000};
  index.bounds = {0, 1, 2};
  const std::string image = index.bytes();
  for (const std::size_t at : {0, 1, 16383, 16384, 39000, 39999}) {
    for (const std::int32_t bad : {100, -1, std::numeric_limits<std::int32_t>::min()}) {
      auto wrong = values;
      wrong[at] = bad;
      const std::string tokens = token_image(wrong);
      const IndexedDataset dataset(as_bytes(image), as_bytes(tokens), "set");
      EXPECT_EQ(dataset.find_outside(100, 0, 40000), static_cast<std::int64_t>(at));
      const std::string said =
          complaint<DataError>([&] { dataset.check_ids(100, 0, dataset.tokens()); });
      EXPECT_TRUE(has(said, "document " + std::to_string(at < 39000 ? 0 : 1) + ", token " +
                                std::to_string(at < 39000 ? at : at - 39000) + " has the id " +
                                std::to_string(bad)))
          << said;
    }
  }
  const std::string tokens = token_image(values);
  const IndexedDataset dataset(as_bytes(image), as_bytes(tokens), "set");
  EXPECT_EQ(dataset.find_outside(8, 0, 40000), std::nullopt);
  EXPECT_EQ(dataset.find_outside(7, 5, 40000), 5);
}

TEST(IndexedDatasetWriterTest, what_is_written_is_read) {
  const Folder folder;
  IndexedDatasetWriter writer(folder / "new/set", TokenType::kU16);
  const std::vector<std::vector<std::int32_t>> documents{{1, 2, 3}, {}, {65499}, {}};
  for (const auto& document : documents) {
    for (const std::int32_t id : document) writer.append(std::vector{id});
    writer.end_document();
  }
  writer.finish();
  const IndexedDataset dataset(folder / "new/set");
  ASSERT_EQ(dataset.documents(), 4);
  EXPECT_EQ(dataset.sequences(), 2);
  for (int d = 0; d < 4; ++d) {
    std::vector<std::int32_t> ids(dataset.document_size(d));
    dataset.read(dataset.document_begin(d), ids);
    EXPECT_EQ(ids, documents[d]);
  }
}

TEST(IndexedDatasetWriterTest, an_unfinished_dataset_leaves_nothing) {
  const Folder folder;
  {
    IndexedDatasetWriter writer(folder / "set", TokenType::kI32);
    writer.append(std::vector<std::int32_t>(3000000, 5));
    EXPECT_EQ(folder.names().size(), 1u);
    EXPECT_TRUE(has(folder.names()[0], "partial"));
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(IndexedDatasetWriterTest, an_id_beyond_the_type_is_refused) {
  const Folder folder;
  IndexedDatasetWriter writer(folder / "set", TokenType::kU16);
  EXPECT_THROW(writer.append(std::vector{65536}), DataError);
  EXPECT_THROW(writer.append(std::vector{-1}), DataError);
}

TEST(IndexedDatasetWriterTest, a_full_disk_is_told_and_leaves_nothing) {
  // A limit on file sizes fails writes as a full disk does.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Folder folder;
  const std::string said = complaint<EnvironmentError>([&] {
    IndexedDatasetWriter writer(folder / "set", TokenType::kI32);
    writer.append(std::vector<std::int32_t>(1 << 20, 5));
    writer.end_document();
    writer.finish();
  });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old);
  EXPECT_TRUE(has(said, "cannot write")) << said;
  EXPECT_TRUE(has(said, "set.bin")) << said;
  EXPECT_TRUE(folder.names().empty());
}

TEST(IndexedDatasetWriterTest, an_unwritable_folder_is_an_environment_error) {
  EXPECT_THROW(IndexedDatasetWriter("/proc/nowhere/set", TokenType::kU16), EnvironmentError);
}

TEST(SidecarTest, the_tokenizer_moves_with_the_dataset_and_old_paths_are_read) {
  const Folder folder;
  const auto prefix = folder / "one/data/set";
  std::filesystem::create_directories(prefix.parent_path());
  const std::string tokenizer = folder.write("one/v.model", "v");
  {
    IndexedDatasetWriter writer(prefix, TokenType::kU16);
    writer.append(std::vector{1, 2});
    writer.end_document();
    writer.finish();
  }
  write_sidecar(prefix, {.tokenizer = "sentencepiece", .tokenizer_path = tokenizer},
                IndexedDataset(prefix));
  EXPECT_TRUE(has(read_text(sidecar_path(prefix)), "\"../v.model\""));
  std::filesystem::rename(folder / "one", folder / "two");
  const auto moved = folder / "two/data/set";
  const auto path_read = [&] { return read_sidecar(moved, IndexedDataset(moved))->tokenizer_path; };
  EXPECT_EQ(path_read(), (folder / "two/v.model").string());

  const auto rewrite = [&](const std::string& path) {
    std::string text = read_text(sidecar_path(moved));
    const std::size_t begin = text.find("tokenizer_path\": \"") + 18;
    text.replace(begin, text.find('"', begin) - begin, path);
    folder.write("two/data/set.json", text);
  };
  rewrite("/somewhere/v.model");
  EXPECT_EQ(path_read(), "/somewhere/v.model");
  // As it was given, relative to where the program runs.
  folder.write("other/w.model", "w");
  rewrite("other/w.model");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder / "");
  EXPECT_EQ(path_read(), "other/w.model");
  std::filesystem::current_path(before);
}

TEST(SidecarTest, only_the_sidecar_of_these_files_counts) {
  const Folder folder;
  const auto write_set = [&](std::int32_t id) {
    IndexedDatasetWriter writer(folder / "set", TokenType::kU16);
    writer.append(std::vector{id, id});
    writer.end_document();
    writer.finish();
  };
  write_set(3);
  const Sidecar sidecar{.tokenizer = "bytes",
                        .tokenizer_path = "a/\xFF",
                        .tokenizer_hash = "h",
                        .vocab_size = 257,
                        .end_of_document = 256,
                        .documents = 1,
                        .tokens = 2,
                        .text_bytes = 9,
                        .highest_id = 3};
  write_sidecar(folder / "set", sidecar, IndexedDataset(folder / "set"));
  const auto read = read_sidecar(folder / "set", IndexedDataset(folder / "set"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text_bytes, 9);
  EXPECT_EQ(read->highest_id, 3);
  const std::string sidecar_text = read_text(sidecar_path(folder / "set"));

  write_set(4);  // the same size, other tokens
  EXPECT_FALSE(std::filesystem::exists(sidecar_path(folder / "set")));
  for (const std::string& foreign :
       {sidecar_text, std::string("{}"), std::string("[1"), std::string()}) {
    folder.write("set.json", foreign);
    EXPECT_FALSE(read_sidecar(folder / "set", IndexedDataset(folder / "set")));
  }
}

}  // namespace
}  // namespace trireme::data
