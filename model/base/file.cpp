#include "model/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "model/base/error.h"

namespace trireme {
namespace {

int open_or_fail(const std::filesystem::path& path, int flags, const char* what) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor < 0) throw_file_error(what, path, errno);
  return descriptor;
}

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "a special file";
}

// Opening or reading a FIFO or a device could block forever.
void require_regular(mode_t mode, const std::filesystem::path& path, const char* what) {
  if (S_ISDIR(mode)) throw_file_error(what, path, EISDIR);
  if (!S_ISREG(mode)) {
    throw EnvironmentError(say("cannot ", what, " ", path.string(), ": it is ", kind_of(mode),
                               "; replace it by a regular file"));
  }
}

// Explains a failed open if the path is not a regular file: a FIFO without a reader, a socket.
void require_regular_if_there(const std::filesystem::path& path, const char* what) {
  if (errno != ENXIO) return;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) require_regular(status.st_mode, path, what);
  errno = ENXIO;
}

}  // namespace

void throw_file_error(const char* what, const std::filesystem::path& path, int reason) {
  if (reason == ELOOP) {
    throw EnvironmentError(
        say("cannot ", what, " ", path.string(),
            ": is a symbolic link, which is not followed here; replace it by a regular file"));
  }
  throw EnvironmentError(say("cannot ", what, " ", path.string(), ": ", std::strerror(reason)));
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const File file = File::open_read(path);
  size_ = file.size();
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (mapped == MAP_FAILED) throw_file_error("map", path, errno);
  data_ = static_cast<const std::byte*>(mapped);
}
MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

File::File(int descriptor, std::filesystem::path path)
    : descriptor_(descriptor), path_(std::move(path)) {}
File File::create(const std::filesystem::path& path) {
  return {open_or_fail(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, "create"), path};
}
File File::create_new(const std::filesystem::path& path) {
  return {open_or_fail(path, O_RDWR | O_CREAT | O_EXCL, "create"), path};
}
File File::open_regular(const std::filesystem::path& path, int flags, const char* what) {
  const int descriptor = ::open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    require_regular_if_there(path, what);
    throw_file_error(errno == ELOOP ? what : "open", path, errno);
  }
  File file{descriptor, path};
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw_file_error(what, path, errno);
  require_regular(status.st_mode, path, what);
  return file;
}
void File::truncate(std::uint64_t size) {
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0)
    throw_file_error("shorten", path_, errno);
}
File File::open_append(const std::filesystem::path& path) {
  return open_regular(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, "write");
}
File File::open_read_append(const std::filesystem::path& path) {
  return open_regular(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, "write");
}
File File::open_write(const std::filesystem::path& path) {
  return open_regular(path, O_RDWR | O_NOFOLLOW, "write");
}
File File::open_read(const std::filesystem::path& path) {
  return open_regular(path, O_RDONLY, "read");
}
File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}
File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}
File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_file_error("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}
void File::write_all(std::string_view text) {
  write_all(std::as_bytes(std::span(text)));
}

void File::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("read", path_, errno);
    if (got == 0)
      throw EnvironmentError(say("cannot read ", path_.string(), ": it ends at byte ", offset));
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}
std::uint64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) throw_file_error("read", path_, errno);
  return static_cast<std::uint64_t>(status.st_size);
}
void File::sync() {
  if (::fsync(descriptor_) != 0) throw_file_error("sync", path_, errno);
}
void File::close() {
  if (::close(std::exchange(descriptor_, -1)) != 0) throw_file_error("close", path_, errno);
}

std::string read_text(const std::filesystem::path& path, std::uint64_t limit) {
  const File file = File::open_read(path);
  const std::uint64_t size = file.size();
  if (size > limit) {
    throw EnvironmentError(
        say("cannot read ", path.string(), ": ", size, " bytes, more than ", limit));
  }
  std::string text(size, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void replace_text(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path temporary = path.string() + say(".tmp-", ::getpid());
  try {
    File file = File::create(temporary);
    file.write_all(text);
    file.sync();
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) throw_file_error("replace", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open_or_fail(folder, O_RDONLY | O_DIRECTORY, "open");
  const int status = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  errno = reason;
  if (status != 0 && reason != EINVAL)
    throw_file_error("sync", folder, errno);  // not supported by all file systems
}

void make_folders(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code why;
  // The folders' names must be durable too, including those of an existing folder, whose creator
  // may have been killed before syncing.
  std::vector<fs::path> parents{fs::absolute(folder).lexically_normal().parent_path()};
  while (parents.back().has_relative_path() && !fs::exists(parents.back(), why)) {
    parents.push_back(parents.back().parent_path());
  }
  fs::create_directories(folder, why);
  if (why)
    throw EnvironmentError(say("cannot create folder ", folder.string(), ": ", why.message()));
  for (const fs::path& parent : parents) {
    if (::access(parent.c_str(), R_OK) == 0) sync_folder(parent);  // others cannot be opened
  }
}

}  // namespace trireme
