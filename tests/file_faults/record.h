#pragma once
#include <cstdint>

namespace trireme::file_faults {

// What was done to a file or folder, once it had succeeded.
enum class Kind : std::uint32_t {
  kCreate = 1,  // a file, empty
  kMakeFolder = 2,
  kWrite = 3,     // `size` bytes at `offset`
  kResize = 4,    // the file has `size` bytes now
  kSync = 5,      // a file's bytes or a folder's names
  kRename = 6,    // from `path` to `other`
  kExchange = 7,  // `path` and `other`
  kRemove = 8,
};

// One operation in the log, followed by `path_bytes` of its absolute path, `other_bytes` of
// the second, and for kWrite by the bytes written.
struct Record {
  static constexpr std::uint32_t kMagic = 0x52464c54;
  std::uint32_t magic = kMagic;
  Kind kind = Kind::kCreate;
  std::int64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t path_bytes = 0;
  std::uint32_t other_bytes = 0;
};

}  // namespace trireme::file_faults
