// A tokenizer.json or tiktoken file, then a zero byte and a text to encode. Whatever the bytes,
// they are refused with a DataError, or every text comes back where that is promised, whole or cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tiktoken.h"
#include "model/base/error.h"

namespace {

using trireme::data::BpeTokenizer;

void expect(bool holds) {
  if (!holds) std::abort();
}

void encode(const BpeTokenizer& tokenizer, const std::string& text) {
  const std::vector<std::int32_t> whole = tokenizer.encode(text);
  const std::string back = tokenizer.decode(whole);
  bool ends = false;
  for (const std::int32_t id : whole) ends = ends || id == tokenizer.end_of_document();
  expect(back == text || ends || !tokenizer.lossless());
  const std::size_t cut = tokenizer.last_cut(text);
  expect(cut <= text.size());
  std::vector<std::int32_t> parts;
  const auto encoder = tokenizer.encoder();
  encoder->encode(std::string_view(text).substr(0, cut), false, parts);
  encoder->encode(std::string_view(text).substr(cut), cut > 0, parts);
  expect(parts == whole);
}

void read_tokenizer(const std::string& input) {
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string file = input.substr(0, end);
  using Format = BpeTokenizer::Format;
  const Format format =
      trireme::data::is_tiktoken(file) ? Format::kTiktoken : Format::kTokenizerJson;
  const BpeTokenizer tokenizer("/nowhere/tokenizer.json", file, format);
  encode(tokenizer, "The ship's  rows\r\n\n 12345 \xC3\xA9\xFF\xE1\xA0\x8E \xE4\xBD\xA0!! ");
  if (end < input.size()) encode(tokenizer, input.substr(end + 1));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read_tokenizer({reinterpret_cast<const char*>(data), size});
  } catch (const trireme::DataError& error) {
    expect(!std::string(error.what()).empty());
  }
  return 0;
}
