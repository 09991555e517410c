#include "data/byte_tokenizer.h"

#include "model/base/error.h"

namespace trireme::data {
namespace {

class ByteEncoder : public Encoder {
 public:
  void encode(std::string_view text, bool /*continues*/, std::vector<std::int32_t>& ids) override {
    const std::size_t before = ids.size();
    ids.resize(before + text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      ids[before + i] = static_cast<unsigned char>(text[i]);
    }
  }
};

}  // namespace

std::unique_ptr<Encoder> ByteTokenizer::encoder() const {
  return std::make_unique<ByteEncoder>();
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw DataError(say("the id ", id, " is outside the bytes tokenizer's vocabulary of 257"));
    }
    if (id < 256) text += static_cast<char>(id);
  }
  return text;
}

}  // namespace trireme::data
