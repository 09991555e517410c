#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme::data {

// XXH3 of the contents of a file. Throws EnvironmentError.
std::uint64_t file_hash(const std::filesystem::path& path);

// Compares the hashes of PREFIX.bin and PREFIX.idx with those that `trireme tokenize` stored in
// PREFIX.json. Returns the number of bytes read; nullopt if there are no stored hashes, as for
// datasets of other tools. Throws DataError naming the file that differs.
std::optional<std::uint64_t> verify_files(const std::filesystem::path& prefix);

}  // namespace trireme::data
