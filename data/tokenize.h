#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/input_files.h"
#include "data/tokenizer.h"

namespace trireme::data {

struct TokenizeSpec {
  std::filesystem::path output;  // PREFIX
  std::string json_key = "text";
  int threads = 1;
  bool end_documents = true;  // append the tokenizer's end-of-document id
  // Fraction of documents, selected by a hash of their number, written to PREFIX-validation.
  double validation_share = 0;
  std::uint64_t save_bytes = 256u << 20;  // input bytes between saves
};

struct TokenizeCount {
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::uint64_t text_bytes = 0;   // of the documents' text
  std::uint64_t input_bytes = 0;  // read so far, JSON included, compressed
  // Taken over from an earlier run that was killed.
  std::int64_t resumed_documents = 0, resumed_tokens = 0;
  std::uint64_t resumed_bytes = 0;  // of input_bytes
};

// Writes the dataset PREFIX.bin and PREFIX.idx with its sidecar PREFIX.json. The output does not
// depend on the number of threads. `progress` is called between batches, by one thread at a time.
// Files get their final names only on success, and a failure leaves no files. Throws DataError
// naming the input file and line.
//
// Every `save_bytes`, completed output is synced and recorded in PREFIX.partial.json. After a kill
// the same call resumes from there; with different inputs, or a changed file, tokenizer or spec, it
// restarts. The output is identical in both cases.
TokenizeCount tokenize(const Tokenizer& tokenizer, const std::vector<InputFile>& inputs,
                       const TokenizeSpec& spec,
                       const std::function<void(const TokenizeCount&)>& progress);

// The text under `key` of a JSON object. Throws DataError beginning with `place`.
std::string text_of_json(std::string_view line, const std::string& key, const std::string& place);

}  // namespace trireme::data
