#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// A read-only view of a whole file, mapped while the object lives. An empty file
// gives an empty span. Throws EnvironmentError naming the path.
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

// Throws EnvironmentError: "cannot WHAT PATH: " and what errno number `reason` means.
[[noreturn]] void throw_file_error(const char* what, const std::filesystem::path& path, int reason);

// An open file descriptor, closed when it dies. write_all and close report a
// full disk and every other failure as EnvironmentError naming the path. What is no
// regular file (a FIFO, a device, a folder) is opened by none and refused at once; nor is a
// symbolic link by those that write.
class File {
 public:
  static File create(const std::filesystem::path& path);            // truncates
  static File create_new(const std::filesystem::path& path);        // fails if it exists
  static File open_append(const std::filesystem::path& path);       // creates if missing
  static File open_read_append(const std::filesystem::path& path);  // the same, readable, too
  static File open_write(const std::filesystem::path& path);        // as it is, for writes in place
  static File open_read(const std::filesystem::path& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  void write_all(std::span<const std::byte> bytes);
  void write_all(std::string_view text);
  // Fills `into` from `offset`; throws when the file ends before.
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

// The whole file as text; refuses one larger than `limit` bytes.
std::string read_text(const std::filesystem::path& path, std::uint64_t limit = 256u << 20);

// Writes a temporary beside `path`, syncs it and renames it over: a reader sees
// the old text or the new, never a part.
void replace_text(const std::filesystem::path& path, std::string_view text);

// Makes a rename or a creation inside `folder` survive a power cut.
void sync_folder(const std::filesystem::path& folder);

// Like std::filesystem::create_directories, but they survive a power cut; says path and reason.
void make_folders(const std::filesystem::path& folder);

}  // namespace trireme
