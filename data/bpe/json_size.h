#pragma once
#include <string>
#include <string_view>

namespace trireme::data {

// Throws DataError beginning with `place` if parsing `text` as JSON would need more memory than any
// real tokenizer: too deeply nested, or too many values. Does not allocate.
void check_json_size(const std::string& place, std::string_view text);

}  // namespace trireme::data
