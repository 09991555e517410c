#pragma once
#include <string>
#include <string_view>

namespace trireme::data {

// Throws DataError that begins with `place` when `text`, parsed as JSON, would take more memory
// than any tokenizer does: it is too deep or has too many values. Reads it without allocating.
void check_json_size(const std::string& place, std::string_view text);

}  // namespace trireme::data
