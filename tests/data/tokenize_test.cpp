#include "data/tokenize.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/sidecar.h"
#include "data/text_reader.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/philox.h"
#include "tests/data/image.h"

namespace trireme::data {
namespace {

TokenizeCount run(const std::vector<std::string>& words, TokenizeSpec spec) {
  return tokenize(*open_tokenizer("bytes"), find_inputs(words), spec, [](const auto&) {});
}

std::vector<std::string> documents_of(const std::filesystem::path& prefix) {
  const IndexedDataset dataset(prefix);
  std::vector<std::string> documents;
  for (std::int64_t d = 0; d < dataset.documents(); ++d) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(dataset.document_size(d)));
    dataset.read(dataset.document_begin(d), ids);
    documents.push_back(open_tokenizer("bytes")->decode(ids));
  }
  return documents;
}

TEST(TokenizeTest, files_folders_lists_and_json_lines_become_documents_in_order) {
  const Folder folder;
  folder.write("in/b.txt", "bee");
  folder.write("in/a/deep.md", "deep");
  folder.write("in/.hidden", "no");
  folder.write("in/.git/config", "no");
  folder.write("in/empty.txt", "");
  folder.write("lines.jsonl",
               "{\"text\": \"one\\n\\u00e9\"}\n\n{\"id\": 1, \"text\": \"\"}\r\n"
               "{\"text\": \"last\"}");
  folder.write("list",
               (folder / "lines.jsonl").string() + "\n\n" + (folder / "in").string() + "\n");
  const TokenizeCount count =
      run({say("@", (folder / "list").string()), (folder / "in/b.txt").string()},
          {.output = folder / "out"});
  EXPECT_EQ(documents_of(folder / "out"),
            (std::vector<std::string>{"one\n\u00e9", "", "last", "deep", "bee", "", "bee"}));
  EXPECT_EQ(count.documents, 7);
  EXPECT_EQ(count.text_bytes, 6u + 0 + 4 + 4 + 3 + 0 + 3);
  EXPECT_EQ(count.tokens, 20 + 7);
  const IndexedDataset dataset(folder / "out");
  EXPECT_EQ(dataset.type(), TokenType::kU16);
  const auto sidecar = read_sidecar(folder / "out", dataset);
  ASSERT_TRUE(sidecar);
  EXPECT_EQ(sidecar->tokenizer, "bytes");
  EXPECT_EQ(sidecar->end_of_document, 256);
  EXPECT_EQ(sidecar->highest_id, 256);
  EXPECT_EQ(sidecar->text_bytes, 20);
}

TEST(TokenizeTest, without_end_of_document_empty_documents_hold_nothing) {
  const Folder folder;
  folder.write("a.txt", "ab");
  folder.write("b.txt", "");
  run({(folder / "a.txt").string(), (folder / "b.txt").string()},
      {.output = folder / "out", .end_documents = false});
  const IndexedDataset dataset(folder / "out");
  EXPECT_EQ(dataset.documents(), 2);
  EXPECT_EQ(dataset.document_size(0), 2);
  EXPECT_EQ(dataset.document_size(1), 0);
}

TEST(TokenizeTest, the_number_of_threads_changes_no_byte) {
  const Folder folder;
  // Many small files, one of several batches, and lines of all lengths.
  for (int i = 0; i < 50; ++i) folder.write(say("in/", i), std::string(i * 37, 'a'));
  std::string large;
  for (std::uint64_t i = 0; large.size() < 3 * TextReader::kBatchBytes + 17; ++i) {
    large += std::to_string(philox(1, i)[0]) + (i % 7 == 0 ? "\n" : " ");
  }
  folder.write("in/large.txt", large);
  std::string lines;
  for (std::uint64_t i = 0; lines.size() < 2 * TextReader::kBatchBytes; ++i) {
    lines += say("{\"text\": \"", std::string(philox(2, i)[0] % 5000, 'j'), "\"}\n");
  }
  lines += say("{\"text\": \"", std::string(TextReader::kBatchBytes + 5, 'k'), "\"}\n");
  folder.write("in/lines.jsonl", lines);
  run({(folder / "in").string()}, {.output = folder / "one"});
  for (const int threads : {2, 3, 8}) {
    run({(folder / "in").string()}, {.output = folder / "many", .threads = threads});
    for (const char* end : {".bin", ".idx", ".json"}) {
      EXPECT_EQ(read_text((folder / "many").string() + end),
                read_text((folder / "one").string() + end))
          << threads << end;
    }
  }
  const auto documents = documents_of(folder / "one");
  EXPECT_EQ(std::count(documents.begin(), documents.end(), large), 1);
}

TEST(TokenizeTest, a_bad_line_is_named_by_file_and_number_and_nothing_is_left) {
  struct Case {
    std::string line, part;
  };
  const std::vector<Case> cases{
      {"{\"text\": ", "is not valid JSON"},
      {"plain text", "is not valid JSON"},
      {"{\"text\": \"\xFF\"}", "is not valid JSON"},
      {"[1]", "is no JSON object but array"},
      {"{\"body\": \"x\"}", "has no key \"text\"; name the key of the text with --jsonl-key"},
      {"{\"text\": 3}", "is no string but number"},
  };
  for (const Case& wrong : cases) {
    for (const int threads : {1, 4}) {
      const Folder folder;
      const std::string path = folder.write(
          "bad.jsonl", say("{\"text\": \"good\"}\n\n", wrong.line, "\n{\"text\": 1}\n"));
      const std::string said = complaint<DataError>(
          [&] { run({path}, {.output = folder / "out", .threads = threads}); });
      EXPECT_TRUE(has(said, "bad.jsonl:3: ")) << said;
      EXPECT_TRUE(has(said, wrong.part)) << said;
      EXPECT_EQ(folder.names(), std::vector<std::string>{"bad.jsonl"});
    }
  }
}

TEST(TokenizeTest, of_many_faults_the_first_is_told_whatever_the_threads) {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 100000; ++i) lines += i >= 60000 ? "{\n" : "{\"text\": \"abcdefghijkl\"}\n";
  const std::string path = folder.write("bad.jsonl", lines);
  for (const int threads : {1, 2, 8}) {
    const std::string said =
        complaint<DataError>([&] { run({path}, {.output = folder / "out", .threads = threads}); });
    EXPECT_TRUE(has(said, "bad.jsonl:60001: ")) << said;
  }
}

TEST(TokenizeTest, inputs_that_are_no_text_are_refused) {
  const Folder folder;
  std::filesystem::create_directories(folder / "empty");
  const auto find = [&](const std::string& word) {
    return complaint<DataError>([&] { find_inputs({word}); });
  };
  EXPECT_TRUE(has(find((folder / "none.txt").string()), "there is no such file or folder"));
  EXPECT_TRUE(has(find((folder / "empty").string()), "holds no files"));
  EXPECT_TRUE(has(find(say("@", (folder / "none").string())), "none"));
  EXPECT_TRUE(has(find(say("@", folder.write("list", "\n"))), "names no files"));
  const std::string loop = (folder / "loop").string();
  folder.write("loop", say("@", loop, "\n"));
  EXPECT_TRUE(has(find(say("@", loop)), "without end"));
  EXPECT_TRUE(has(find(folder.write("a.txt.gz", "\x1F\x8B\x08")), "gunzip it first"));
  EXPECT_TRUE(has(find("/dev/null"), "is no regular file"));
  const std::string blank = folder.write("blank.jsonl", "\n \n");
  EXPECT_TRUE(has(complaint<DataError>([&] { run({blank}, {.output = folder / "out"}); }),
                  "hold no documents"));
}

TEST(TextReaderTest, a_text_that_may_not_be_cut_is_read_whole) {
  const Folder folder;
  const std::string text(3 * TextReader::kBatchBytes + 1, 'x');
  const auto inputs = find_inputs({folder.write("a.txt", text)});
  TextReader reader(inputs, [](std::string_view) { return std::size_t{0}; });
  TextBatch batch;
  ASSERT_TRUE(reader.next(batch));
  ASSERT_EQ(batch.pieces.size(), 1u);
  EXPECT_TRUE(batch.pieces[0].ends_document);
  EXPECT_EQ(batch.text, text);
  EXPECT_FALSE(reader.next(batch));
}

}  // namespace
}  // namespace trireme::data
