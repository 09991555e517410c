#pragma once
#include <cstdint>
#include <filesystem>

namespace trireme {

// The tokenizer "bytes" in Hugging Face's words, tokenizer.json and tokenizer_config.json in
// `folder`: byte-level BPE without a merge, whose ids are ours.
void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t end_of_document,
                          std::int64_t longest);

}  // namespace trireme
