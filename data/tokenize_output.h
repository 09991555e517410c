#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/indexed_dataset_writer.h"
#include "data/text_reader.h"
#include "data/tokenize.h"

namespace trireme::data {

// The datasets written by tokenize(), and the record of its progress. Not thread-safe.
class TokenizeOutput {
 public:
  TokenizeOutput(const Tokenizer& tokenizer, const std::vector<InputFile>& inputs,
                 const TokenizeSpec& spec);
  ~TokenizeOutput();  // if unfinished, removes all files
  TokenizeOutput(const TokenizeOutput&) = delete;
  TokenizeOutput& operator=(const TokenizeOutput&) = delete;

  ReaderPosition begin() const { return begin_; }  // where reading of the input starts
  const TokenizeCount& count() const { return count_; }

  // Appends ids to the current document, with the number of text bytes they encode.
  void append(std::span<const std::int32_t> ids, std::uint64_t text_bytes, bool ends_document);
  // All input up to `after` has been appended.
  void reached(const ReaderPosition& after, std::uint64_t bytes_read);
  void finish();

 private:
  struct Part {
    std::filesystem::path prefix;
    std::unique_ptr<IndexedDatasetWriter> writer;
    std::uint64_t text_bytes;
  };
  bool resume();
  void start();
  void add_part(const std::string& suffix, const SavedTokens& from, std::uint64_t text_bytes);
  void save(const ReaderPosition& after);
  Part& part_of(std::int64_t document);

  const Tokenizer& tokenizer_;
  const TokenizeSpec& spec_;
  std::filesystem::path note_;
  std::string job_;  // hash of everything that determines the output
  std::vector<Part> parts_;
  ReaderPosition begin_;
  TokenizeCount count_;
  std::uint64_t saved_at_ = 0;  // in input bytes
  bool finished_ = false;
};

}  // namespace trireme::data
