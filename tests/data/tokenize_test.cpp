#include "data/tokenize.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/indexed_dataset_writer.h"
#include "data/sidecar.h"
#include "data/text_reader.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/philox.h"
#include "tests/data/image.h"

namespace trireme::data {
namespace {

TokenizeCount run(const std::vector<std::string>& words, TokenizeSpec spec) {
  return tokenize(*open_tokenizer("bytes"), find_inputs(words).files, spec, [](const auto&) {});
}

std::vector<std::string> documents_of(const std::filesystem::path& prefix) {
  const IndexedDataset dataset(prefix);
  std::vector<std::string> documents;
  for (std::int64_t d = 0; d < dataset.documents(); ++d) {
    std::vector<std::int32_t> ids(dataset.document_size(d));
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
      {"[1]", "is not a JSON object but array"},
      {"{\"body\": \"x\"}", "has no key \"text\"; name the key of the text with --jsonl-key"},
      {"{\"text\": 3}", "is not a string but number"},
      {"{\"text\": \"\", \"n\": 1e999}", "has a number outside the range of double"},
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
  EXPECT_TRUE(has(find(folder.write("a.txt.bz2", "BZh9")), "bunzip2 it first"));
  EXPECT_TRUE(has(find("/dev/null"), "is not a regular file"));
  const std::string blank = folder.write("blank.jsonl", "\n \n");
  EXPECT_TRUE(has(complaint<DataError>([&] { run({blank}, {.output = folder / "out"}); }),
                  "no documents to tokenize"));
}

std::string gzip(const std::string& text) {
  std::string packed(text.size() + 1000, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}
std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // as the zstd program does
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return packed;
}
std::string numbers(std::uint64_t seed, std::size_t size) {
  std::string text;
  for (std::uint64_t i = 0; text.size() < size; ++i) text += say(philox(seed, i)[0], " ");
  return text;
}

TEST(TokenizeTest, compressed_files_are_read_as_what_they_hold) {
  const Folder folder;
  const std::string large = numbers(1, 2 * TextReader::kBatchBytes + 77);
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  folder.write("in/a.txt.gz", gzip(large) + gzip("more"));  // members one after the other
  folder.write("in/b.jsonl.zst", zstd(lines));
  folder.write("in/c.zst", zstd(large) + zstd("more"));
  folder.write("in/d.jsonl.gz", gzip(lines));
  folder.write("in/e.gz", gzip(""));
  const std::vector<std::string> expected{large + "more", "one", "two", large + "more",
                                          "one",          "two", ""};
  for (const int threads : {1, 3}) {
    const auto count =
        run({(folder / "in").string()}, {.output = folder / "out", .threads = threads});
    EXPECT_EQ(documents_of(folder / "out"), expected);
    EXPECT_LT(count.input_bytes, count.text_bytes);
  }
}

std::string noise(std::size_t size) {
  std::string bytes;
  for (std::uint64_t i = 0; bytes.size() < size; ++i) {
    bytes += static_cast<char>(philox(7, i)[0] & 0xFF);
  }
  return bytes;
}

TEST(InputFilesTest, what_is_no_text_by_name_or_content_is_refused_with_the_fix) {
  const std::string high = [] {  // no NUL in it
    std::string text = noise(300);
    for (char& c : text) c = static_cast<char>(c | 0x80);
    return text;
  }();
  struct Case {
    std::string name, content, part;
  };
  const std::vector<Case> cases{
      {"garbage.parquet", noise(3000), "is Parquet"},
      {"table.txt", "PAR1" + noise(100), "is Parquet"},
      {"a.arrow", "ARROW1", "is Arrow"},
      {"a.csv", "a,b\n1,2\n", "is a table"},
      {"a.tar.gz", gzip(noise(5000)), "is an archive"},
      {"a.xyz", "words", "files of type .xyz are not known as text"},
      {"a.PDF", "words", "files of type .pdf are not known as text"},
      {"noise.txt", noise(3000), "contains NUL bytes"},
      {"noise", noise(3000), "contains NUL bytes"},
      {"late.txt", std::string(400000, 'a') + noise(3000), "contains NUL bytes"},
      {"noise.txt.gz", gzip(noise(3000)), "contains NUL bytes"},
      {"noise.jsonl.zst", zstd(noise(3000)), "contains NUL bytes"},
      {"wide.txt", std::string("a\0b\0c\0", 6), "iconv -f UTF-16"},
      {"high.txt", high, "% of its bytes are not UTF-8"},
      {"list.json", "[{\"text\": \"a\"}]", "is a JSON array; convert it to JSON lines"},
      {"list.jsonl", "\xEF\xBB\xBF[\n{\"text\": \"a\"}\n]", "is a JSON array"},
      {"list.txt.gz", gzip(" [\n {\"text\": \"a\"}]"), "is a JSON array"},
      {"one.json", "{\n \"text\": \"a\"\n}\n", "but not one object per line"},
      {"lines.txt", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", "--as jsonl"},
  };
  for (const Case& wrong : cases) {
    const Folder folder;
    const std::string path = folder.write(wrong.name, wrong.content);
    const std::string said = complaint<DataError>([&] { find_inputs({path}); });
    EXPECT_TRUE(has(said, path + ": ")) << said;
    EXPECT_TRUE(has(said, wrong.part)) << wrong.name << ": " << said;
    EXPECT_TRUE(has(said, "--as text")) << said;
    const Inputs forced = find_inputs({path}, {.others = InputRules::Others::kAsText});
    ASSERT_EQ(forced.files.size(), 1u);
    EXPECT_FALSE(forced.files[0].json_lines);
  }
}

TEST(InputFilesTest, text_of_every_known_kind_is_taken) {
  const Folder folder;
  folder.write("in/a.txt", "[1] a note, not JSON");
  folder.write("in/b.MD", "# b");
  folder.write("in/c.rst.gz", gzip("c"));
  folder.write("in/d", "d");
  folder.write("in/e.0001", "e");
  folder.write("in/f.txt", "caf\xE9, in Latin-1, of which a few bytes are no UTF-8");
  folder.write("in/g.json.zst", zstd("{\"text\": \"g\"}\n{\"text\": \"h\"}\n"));
  folder.write("in/h.txt", std::string(65535, 'h') + std::string(300000, 'h') + "\u20AC\u20AC");
  const auto files = find_inputs({(folder / "in").string()}).files;
  std::vector<std::string> kinds;
  for (const InputFile& file : files) kinds.push_back(file.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{".txt", ".md", ".rst", "", ".0001", ".txt", ".json",
                                             ".txt"}));
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i].json_lines, i == 6) << i;
    EXPECT_EQ(files[i].is_pure_utf8, i != 5) << i;
  }
}

TEST(InputFilesTest, a_folder_with_other_files_is_refused_or_they_are_skipped_and_listed) {
  const Folder folder;
  folder.write("in/a.txt", "a");
  for (const char* name : {"b.png", "c.png", "d.parquet", "e.txt"}) {
    folder.write(say("in/", name), noise(1000));
  }
  const std::string in = (folder / "in").string();
  const std::string said = complaint<DataError>([&] { find_inputs({in}); });
  EXPECT_TRUE(has(said, "4 of 5 files")) << said;
  EXPECT_TRUE(has(said, "d.parquet is Parquet")) << said;
  EXPECT_TRUE(has(said, "and 1 more. Skip such files with --skip-others")) << said;
  const Inputs rest = find_inputs({in}, {.others = InputRules::Others::kSkip});
  EXPECT_EQ(rest.files.size(), 1u);
  EXPECT_EQ(rest.skipped.size(), 4u);
  EXPECT_TRUE(has(complaint<DataError>(
                      [&] { find_inputs({in + "/b.png"}, {.others = InputRules::Others::kSkip}); }),
                  "skips all of the 1 files"));
}

TEST(TokenizeTest, a_compressed_file_that_is_cut_off_or_damaged_is_refused) {
  const std::string text = numbers(2, 50000);
  for (const std::string& whole : {gzip(text), zstd(text)}) {
    std::string damaged = whole;
    damaged[whole.size() / 2] ^= 0x55;
    for (const std::string& bad :
         {whole.substr(0, whole.size() - 1), whole.substr(0, whole.size() / 2), damaged,
          whole.substr(0, 5), whole + "rubbish"}) {
      const Folder folder;
      const std::string path = folder.write("a.txt.gz", bad);
      const std::string said =
          complaint<DataError>([&] { run({path}, {.output = folder / "out"}); });
      EXPECT_TRUE(has(said, "its compressed data cannot be read")) << bad.size() << said;
      EXPECT_EQ(folder.names(), std::vector<std::string>{"a.txt.gz"});
    }
  }
}

TEST(TokenizeTest, a_share_of_the_documents_goes_to_validation) {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += say("{\"text\": \"", i, "\"}\n");
  const std::string path = folder.write("a.jsonl", lines);
  const auto split = [&](const std::string& name, double share) {
    run({path}, {.output = folder / name, .validation_share = share});
    return documents_of(folder / (name + "-validation"));
  };
  const auto validation = split("out", 0.1);
  EXPECT_NEAR(static_cast<double>(validation.size()), 200, 45);
  auto all = documents_of(folder / "out");
  EXPECT_TRUE(read_sidecar(folder / "out-validation", IndexedDataset(folder / "out-validation")));
  all.insert(all.end(), validation.begin(), validation.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  EXPECT_EQ(all.size(), 2000u);
  // A larger share takes more of the same, and keeps what a smaller one took.
  const auto larger = split("more", 0.2);
  for (const std::string& document : validation) {
    EXPECT_EQ(std::count(larger.begin(), larger.end(), document), 1) << document;
  }
  EXPECT_TRUE(has(complaint<DataError>([&] { split("none", 1e-9); }), "leaves none for"));
}

// Runs in a process of its own that ends after so many batches as a kill would end it.
void run_killed(const std::string& word, const TokenizeSpec& spec, int batches) {
  const pid_t child = ::fork();
  if (child == 0) {
    int seen = 0;
    tokenize(*open_tokenizer("bytes"), find_inputs({word}).files, spec, [&](const auto&) {
      if (++seen > batches) ::_exit(9);
    });
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 9);
}

TEST(TokenizeTest, a_killed_run_is_gone_on_with_and_gives_the_same_bytes) {
  const Folder folder;
  folder.write("in/a.txt", numbers(1, 2 * TextReader::kBatchBytes));
  folder.write("in/b.txt.gz", gzip(numbers(2, 3 * TextReader::kBatchBytes)));
  std::string lines;
  for (std::uint64_t i = 0; lines.size() < 2 * TextReader::kBatchBytes; ++i) {
    lines += say("{\"text\": \"", numbers(3 + i, 3000), "\"}\n");
  }
  folder.write("in/c.jsonl.zst", zstd(lines));
  const std::string in = (folder / "in").string();
  TokenizeSpec spec{
      .output = folder / "whole", .threads = 2, .validation_share = 0.3, .save_bytes = 1};
  const TokenizeCount whole = run({in}, spec);
  EXPECT_EQ(whole.resumed_documents, 0);
  spec.output = folder / "out";
  for (const int batches : {2, 6}) {
    run_killed(in, spec, batches);
    EXPECT_FALSE(std::filesystem::exists((folder / "out").string() + ".idx"));
    const TokenizeCount count = run({in}, spec);
    EXPECT_GT(count.resumed_bytes, 0u) << batches;
    EXPECT_EQ(count.tokens, whole.tokens);
    for (const char* end : {".bin", ".idx", ".json", "-validation.bin", "-validation.idx"}) {
      EXPECT_EQ(read_text((folder / "out").string() + end),
                read_text((folder / "whole").string() + end))
          << batches << end;
      std::filesystem::remove((folder / "out").string() + end);
    }
    for (const std::string& name : folder.names()) EXPECT_FALSE(has(name, "partial")) << name;
  }
  // What was killed twice, and another job in its place.
  run_killed(in, spec, 3);
  run_killed(in, spec, 3);
  EXPECT_GT(run({in}, spec).resumed_tokens, 2 * static_cast<int>(TextReader::kBatchBytes));
  run_killed(in, spec, 3);
  spec.end_documents = false;
  EXPECT_EQ(run({in}, spec).resumed_bytes, 0u);
}

TEST(TokenizeTest, two_runs_do_not_write_one_dataset) {
  const Folder folder;
  const std::string path = folder.write("a.txt", "text");
  const IndexedDatasetWriter other(folder / "out", TokenType::kU16);
  EXPECT_TRUE(has(complaint<EnvironmentError>([&] { run({path}, {.output = folder / "out"}); }),
                  "another process is writing it"));
}

TEST(TextReaderTest, a_text_that_may_not_be_cut_is_read_whole) {
  const Folder folder;
  const std::string text(3 * TextReader::kBatchBytes + 1, 'x');
  const auto inputs = find_inputs({folder.write("a.txt", text)}).files;
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
