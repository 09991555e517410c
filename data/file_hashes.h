#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme::data {

// XXH3 of all bytes of a file, read once. Throws EnvironmentError.
std::uint64_t file_hash(const std::filesystem::path& path);

// Reads all bytes of the dataset PREFIX.bin, PREFIX.idx and compares their hashes with those that
// `trireme tokenize` left in PREFIX.json. Returns how many bytes that were; nothing where there is
// none to compare with, as of datasets that others made. Throws DataError naming the file that
// differs.
std::optional<std::uint64_t> verify_files(const std::filesystem::path& prefix);

}  // namespace trireme::data
