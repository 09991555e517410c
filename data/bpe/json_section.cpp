#include "data/bpe/json_section.h"

#include <cstdint>

#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr int kDeepest = 32;
constexpr std::uint64_t kMostValues = 1u << 22;  // the largest vocabularies have 2 million

}  // namespace

void check_json_size(const std::string& place, std::string_view text) {
  int depth = 0;
  std::uint64_t values = 1;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    quoted = c == '"';
    const bool opens = c == '{' || c == '[';
    if (opens) ++depth;
    if (c == '}' || c == ']') --depth;
    if (opens || c == ',') ++values;
    if (depth > kDeepest) throw DataError(say(place, ": is nested too deeply"));
    if (values > kMostValues) {
      throw DataError(say(place, ": has more than ", kMostValues, " values"));
    }
  }
}

}  // namespace trireme::data
