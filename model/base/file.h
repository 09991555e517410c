#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// A read-only memory map of a whole file, unmapped by the destructor. An empty file gives an empty
// span. Throws EnvironmentError naming the path.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Throws EnvironmentError: "cannot WHAT PATH: " and the description of errno value `reason`.
[[noreturn]] void throw_file_error(const char* what, const std::filesystem::path& path, int reason);

// An open file descriptor, closed by the destructor. All failures, including a full disk, throw
// EnvironmentError naming the path. All open functions reject anything but regular files (FIFOs,
// devices, folders); those that write also reject symbolic links.
class File {
 public:
  static File create(const std::filesystem::path& path);            // truncates
  static File create_new(const std::filesystem::path& path);        // fails if the file exists
  static File open_append(const std::filesystem::path& path);       // creates the file if missing
  static File open_read_append(const std::filesystem::path& path);  // same, also readable
  static File open_write(const std::filesystem::path& path);        // without truncation
  static File open_read(const std::filesystem::path& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  void write_all(std::span<const std::byte> bytes);
  void write_all(std::string_view text);
  // Reads exactly into.size() bytes at `offset`; throws at end of file.
  void read_at(std::uint64_t offset, std::span<std::byte> into) const;
  std::uint64_t size() const;
  void truncate(std::uint64_t size);
  void sync();
  void close();
  int descriptor() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  File(int descriptor, std::filesystem::path path);
  static File open_regular(const std::filesystem::path& path, int flags, const char* what);
  int descriptor_ = -1;
  std::filesystem::path path_;
};

// Reads a whole file as text; rejects files larger than `limit` bytes.
std::string read_text(const std::filesystem::path& path, std::uint64_t limit = 256u << 20);

// Replaces a file atomically: writes a temporary file next to `path`, syncs it and renames it.
void replace_text(const std::filesystem::path& path, std::string_view text);

// Makes renames and new files inside `folder` durable (fsync of the folder).
void sync_folder(const std::filesystem::path& folder);

// std::filesystem::create_directories, but durable and with path and reason in its errors.
void make_folders(const std::filesystem::path& folder);

}  // namespace trireme
