#pragma once
#include <string>
#include <string_view>

namespace trireme::checkpoint {

// Completes a JSON object, given without its closing brace, with a last key "crc32c": the CRC32C of
// all bytes before the comma that precedes the key.
std::string sealed(std::string body);

// Throws CheckpointError naming `from` unless `text` ends with this key and the checksum matches.
void check_seal(std::string_view text, const std::string& from);

}  // namespace trireme::checkpoint
