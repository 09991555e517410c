#pragma once
#include <cstdint>
#include <filesystem>

namespace trireme {

// Writes tokenizer "bytes" for Hugging Face (tokenizer.json and tokenizer_config.json in `folder`)
// as byte-level BPE without merges and with the same ids. `longest` is model_max_length.
void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t end_of_document,
                          std::int64_t longest);

}  // namespace trireme
