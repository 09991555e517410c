#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/input_files.h"

namespace trireme::data {

struct VocabularySpec {
  std::int64_t vocab_size = 0;  // 256 bytes, 3 control pieces and the rest merges
  std::string json_key = "text";
  std::uint64_t sample_bytes = 16u << 20;  // at most this much text, evenly from the input
};

struct VocabularySample {
  std::uint64_t text_bytes = 0;  // seen
  std::uint64_t used_bytes = 0;  // chosen
  std::uint64_t lines = 0;       // chosen
};

// Trains a SentencePiece BPE model that gives back every text (byte fallback, no
// normalization, no prefix) and writes it to `output` in one rename. Learns from whole lines,
// chosen by a hash of their place, so the same input gives the same model.
// `on_sample` is called when the text has been chosen, before the long part.
// Throws DataError naming what is wrong with input or size.
void train_sentencepiece(const std::vector<InputFile>& inputs, const VocabularySpec& spec,
                         const std::filesystem::path& output,
                         const std::function<void(const VocabularySample&)>& on_sample);

}  // namespace trireme::data
