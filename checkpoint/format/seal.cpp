#include "checkpoint/format/seal.h"

#include <span>

#include "checkpoint/format/crc32c.h"
#include "model/base/error.h"
#include "model/base/hex.h"

namespace trireme::checkpoint {
namespace {

std::string ending(std::string_view body) {
  return say(",\n  \"crc32c\": \"", hex(crc32c(std::as_bytes(std::span(body)))), "\"\n}\n");
}

}  // namespace

std::string sealed(std::string body) {
  body += ending(body);
  return body;
}

void check_seal(std::string_view text, const std::string& from) {
  const std::size_t length = ending({}).size();
  if (text.size() < length) {
    throw CheckpointError(say(from, ": ", text.size(), " bytes only: it is truncated"));
  }
  const std::string_view body = text.substr(0, text.size() - length);
  const std::string expected = ending(body);
  if (text.substr(body.size()) == expected) return;
  throw CheckpointError(say(from, ": damaged: it does not end with its CRC32C (",
                            expected.substr(15, 8), " for what is there)"));
}

}  // namespace trireme::checkpoint
