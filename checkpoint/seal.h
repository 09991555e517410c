#pragma once
#include <string>
#include <string_view>

namespace trireme::checkpoint {

// Completes the text of a JSON object, given without its closing brace, by a last
// key "crc32c": the CRC32C of every byte before the comma in front of that key.
std::string sealed(std::string body);

// Throws CheckpointError naming `from` unless `text` ends with such a key and it fits.
void check_seal(std::string_view text, const std::string& from);

}  // namespace trireme::checkpoint
