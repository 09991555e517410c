#include "trainer/convert/huggingface/byte_tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "model/base/file.h"

namespace trireme {
namespace {

using nlohmann::ordered_json;

constexpr const char* kEnd = "<|endoftext|>";

bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

std::string utf8(unsigned point) {
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xc0u | point >> 6), static_cast<char>(0x80u | (point & 0x3fu))};
}

// GPT-2's alphabet: printable bytes map to themselves, others to U+0100 onwards.
ordered_json alphabet() {
  ordered_json ids;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    ids[utf8(is_printable(byte) ? byte : next++)] = byte;
  }
  return ids;
}

}  // namespace

void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t end_of_document,
                          std::int64_t longest) {
  const ordered_json end = {{"id", end_of_document}, {"content", kEnd}, {"single_word", false},
                            {"lstrip", false},       {"rstrip", false}, {"normalized", false},
                            {"special", true}};
  const ordered_json bytes = {{"type", "ByteLevel"},
                              {"add_prefix_space", false},
                              {"trim_offsets", true},
                              {"use_regex", false}};
  const ordered_json tokenizer = {{"version", "1.0"},
                                  {"truncation", nullptr},
                                  {"padding", nullptr},
                                  {"added_tokens", ordered_json::array({end})},
                                  {"normalizer", nullptr},
                                  {"pre_tokenizer", bytes},
                                  {"post_processor", nullptr},
                                  {"decoder", bytes},
                                  {"model",
                                   {{"type", "BPE"},
                                    {"dropout", nullptr},
                                    {"unk_token", nullptr},
                                    {"continuing_subword_prefix", nullptr},
                                    {"end_of_word_suffix", nullptr},
                                    {"fuse_unk", false},
                                    {"byte_fallback", false},
                                    {"ignore_merges", false},
                                    {"vocab", alphabet()},
                                    {"merges", ordered_json::array()}}}};
  replace_text(folder / "tokenizer.json", tokenizer.dump(1) + "\n");
  const ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                               {"bos_token", kEnd},
                               {"eos_token", kEnd},
                               {"clean_up_tokenization_spaces", false},
                               {"model_max_length", longest}};
  replace_text(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace trireme
