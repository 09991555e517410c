#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/input_files.h"

namespace trireme::data {

struct VocabularySpec {
  std::int64_t vocab_size = 0;  // 256 bytes, 3 control pieces, the rest merges
  std::string json_key = "text";
  std::uint64_t sample_bytes = 16u << 20;  // most text used, sampled evenly from the input
};

struct VocabularySample {
  std::uint64_t text_bytes = 0;  // available
  std::uint64_t used_bytes = 0;  // sampled
  std::uint64_t lines = 0;       // sampled
};

// Trains a lossless SentencePiece BPE model (byte fallback, no normalization, no prefix) and writes
// it to `output` atomically. Trains on whole lines, selected by a hash of their number, so that the
// same input gives the same model. Calls `on_sample` after sampling, before the long training.
// Throws DataError naming the problem with input or size.
void train_sentencepiece(const std::vector<InputFile>& inputs, const VocabularySpec& spec,
                         const std::filesystem::path& output,
                         const std::function<void(const VocabularySample&)>& on_sample);

}  // namespace trireme::data
