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
  bool end_documents = true;  // with the tokenizer's end-of-document id
  // Of the documents, chosen by a hash of their number, this share goes to PREFIX-validation.
  double validation_share = 0;
  std::uint64_t save_bytes = 256u << 20;  // of input between two saves
};

struct TokenizeCount {
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::uint64_t text_bytes = 0;   // of the documents' text
  std::uint64_t input_bytes = 0;  // read so far, JSON included, compressed as it is
  // Of an earlier run that was killed, taken over.
  std::int64_t resumed_documents = 0, resumed_tokens = 0;
  std::uint64_t resumed_bytes = 0;  // of input_bytes
};

// Writes the dataset PREFIX.bin and PREFIX.idx, and PREFIX.json beside it. The bytes of the
// result do not depend on the number of threads. `progress` is called between batches, from one
// thread at a time. Nothing appears under a final name unless everything went well, and a
// failure leaves nothing behind. Throws DataError naming the input file and line.
//
// Every `save_bytes` what is finished is synced and noted in PREFIX.partial.json. When the process
// is killed, the same call goes on from there; with other inputs, a changed file, tokenizer or spec
// it begins anew. The bytes of the result are the same either way.
TokenizeCount tokenize(const Tokenizer& tokenizer, const std::vector<InputFile>& inputs,
                       const TokenizeSpec& spec,
                       const std::function<void(const TokenizeCount&)>& progress);

// The text under `key` of one JSON object. Throws DataError that begins with `place`.
std::string text_of_json(std::string_view line, const std::string& key, const std::string& place);

}  // namespace trireme::data
