// The C library's calls that change files, for a program that this is preloaded into.
#include <fcntl.h>
#include <linux/limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "tests/file_faults/control.h"

namespace trireme::file_faults {
namespace {

Control& control() {
  static Control* const kControl = new Control;  // outlives every destructor that writes
  return *kControl;
}

__attribute__((constructor)) void start() {
  control();
  ::pthread_atfork(nullptr, nullptr, [] { control().register_process(); });
}

std::string path_of(int descriptor) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  std::array<char, PATH_MAX> path{};
  const long size = ::syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : "";
}

// Absolute and without links but for the last name.
std::string path_of(int folder, const char* path) {
  const std::string text(path);
  const std::size_t slash = text.rfind('/');
  const std::string name = slash == std::string::npos ? text : text.substr(slash + 1);
  const std::string parent = slash == std::string::npos ? "." : text.substr(0, slash + 1);
  const long opened =
      ::syscall(SYS_openat, folder, parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  if (opened < 0) return "";
  const std::string absolute = path_of(static_cast<int>(opened)) + "/" + name;
  ::syscall(SYS_close, opened);
  return absolute;
}

// Performs an operation unless it is to fail, and logs what it did. `perform` gets whether it
// shall do but half and returns what the system call does; `done(result)` returns the record.
struct Done {
  Kind kind = Kind::kSync;
  std::int64_t offset = 0;
  std::uint64_t size = 0;
  std::span<const std::byte> bytes = {};
  bool changed = true;
};
template <class Perform, class Describe>
long operate(const char* operation, const std::string& path, const std::string& other,
             Perform perform, Describe describe) {
  if (!control().concerns(path)) return perform(false);
  const Control::Fault fault = control().before(operation, path);
  if (fault.error) {
    errno = fault.error;
    return -1;
  }
  if (!control().logs()) return perform(fault.half);
  const int log = control().begin();
  const long result = perform(fault.half);
  const int reason = errno;
  const Done done = result < 0 ? Done{.changed = false} : describe(result);
  if (done.changed) {
    control().end(log, done.kind, path, other, done.offset, done.size, done.bytes);
  } else {
    control().abandon(log);
  }
  errno = reason;
  return result;
}

int open_at(int folder, const char* name, int flags, mode_t mode) {
  const auto open = [&] { return ::syscall(SYS_openat, folder, name, flags, mode); };
  const bool writes = (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
  if (!writes || (flags & O_TMPFILE) == O_TMPFILE) return static_cast<int>(open());
  bool was_there = false;
  const auto perform = [&](bool) {
    struct stat status {};
    was_there = ::fstatat(folder, name, &status, 0) == 0;
    return open();
  };
  return static_cast<int>(operate("open", path_of(folder, name), "", perform, [&](long) {
    return Done{.kind = was_there ? Kind::kResize : Kind::kCreate,
                .changed = !was_there || (flags & O_TRUNC) != 0};
  }));
}

// Direct writes keep their alignment.
std::size_t half_of(std::size_t size) {
  constexpr std::size_t kBlock = 4096;
  return size >= 2 * kBlock ? size / 2 / kBlock * kBlock : (size + 1) / 2;
}

ssize_t write_at(int file, const void* data, std::size_t size, bool placed, off_t offset) {
  const auto perform = [&](bool half) {
    const std::size_t n = half ? half_of(size) : size;
    return placed ? ::syscall(SYS_pwrite64, file, data, n, offset)
                  : ::syscall(SYS_write, file, data, n);
  };
  return operate("write", path_of(file), "", perform, [&](long written) {
    const auto n = static_cast<std::size_t>(written);
    const off_t at = placed ? offset : ::lseek(file, 0, SEEK_CUR) - written;
    return Done{Kind::kWrite, at, n, {static_cast<const std::byte*>(data), n}, written > 0};
  });
}

std::string gathered(const iovec* parts, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  }
  return bytes;
}

template <class Perform>
long resize(int file, Perform call) {
  const std::string path = path_of(file);
  const auto perform = [&](bool) { return call(); };
  return operate("resize", path, "", perform, [&](long) {
    struct stat status {};
    ::fstat(file, &status);
    return Done{.kind = Kind::kResize, .size = static_cast<std::uint64_t>(status.st_size)};
  });
}

int sync(long call, int file) {
  const auto perform = [&](bool) { return ::syscall(call, file); };
  return static_cast<int>(
      operate("sync", path_of(file), "", perform, [](long) { return Done{.kind = Kind::kSync}; }));
}

int rename_at(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  const auto perform = [&](bool) {
    return ::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
  };
  return static_cast<int>(
      operate("rename", path_of(from_folder, from), path_of(to_folder, to), perform, [&](long) {
        return Done{.kind = (flags & RENAME_EXCHANGE) != 0 ? Kind::kExchange : Kind::kRename};
      }));
}

int make_folder(int folder, const char* name, mode_t mode) {
  const auto perform = [&](bool) { return ::syscall(SYS_mkdirat, folder, name, mode); };
  return static_cast<int>(operate("folder", path_of(folder, name), "", perform,
                                  [](long) { return Done{.kind = Kind::kMakeFolder}; }));
}

int remove_at(int folder, const char* name, int flags) {
  const auto perform = [&](bool) { return ::syscall(SYS_unlinkat, folder, name, flags); };
  return static_cast<int>(operate("remove", path_of(folder, name), "", perform,
                                  [](long) { return Done{.kind = Kind::kRemove}; }));
}

int allocate(int file, int mode, off_t offset, off_t size) {
  return static_cast<int>(
      resize(file, [&] { return ::syscall(SYS_fallocate, file, mode, offset, size); }));
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace
}  // namespace trireme::file_faults

// NOLINTBEGIN(readability-identifier-naming): the C library's names
namespace faults = trireme::file_faults;
extern "C" {

int open(const char* name, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = faults::mode_of(flags, arguments);
  va_end(arguments);
  return faults::open_at(AT_FDCWD, name, flags, mode);
}
int open64(const char* name, int flags, ...) __attribute__((alias("open")));
int openat(int folder, const char* name, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = faults::mode_of(flags, arguments);
  va_end(arguments);
  return faults::open_at(folder, name, flags, mode);
}
int openat64(int folder, const char* name, int flags, ...) __attribute__((alias("openat")));
int creat(const char* name, mode_t mode) {
  return faults::open_at(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char* name, mode_t mode) __attribute__((alias("creat")));

ssize_t write(int file, const void* data, std::size_t size) {
  return faults::write_at(file, data, size, false, 0);
}
ssize_t pwrite(int file, const void* data, std::size_t size, off_t offset) {
  return faults::write_at(file, data, size, true, offset);
}
ssize_t pwrite64(int file, const void* data, std::size_t size, off64_t offset)
    __attribute__((alias("pwrite")));
ssize_t writev(int file, const iovec* parts, int count) {
  const std::string bytes = faults::gathered(parts, count);
  return faults::write_at(file, bytes.data(), bytes.size(), false, 0);
}
// Direct writes want aligned memory, which a copy has not: part by part.
ssize_t pwritev(int file, const iovec* parts, int count, off_t offset) {
  ssize_t sum = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t n =
        faults::write_at(file, parts[i].iov_base, parts[i].iov_len, true, offset + sum);
    if (n < 0) return sum ? sum : n;
    sum += n;
    if (static_cast<std::size_t>(n) < parts[i].iov_len) break;
  }
  return sum;
}
ssize_t pwritev64(int file, const iovec* parts, int count, off64_t offset)
    __attribute__((alias("pwritev")));

int ftruncate(int file, off_t size) noexcept {
  return static_cast<int>(
      faults::resize(file, [&] { return ::syscall(SYS_ftruncate, file, size); }));
}
int ftruncate64(int file, off64_t size) noexcept __attribute__((alias("ftruncate")));
int fallocate(int file, int mode, off_t offset, off_t size) {
  return faults::allocate(file, mode, offset, size);
}
int fallocate64(int file, int mode, off64_t offset, off64_t size)
    __attribute__((alias("fallocate")));
int posix_fallocate(int file, off_t offset, off_t size) {
  return faults::allocate(file, 0, offset, size) == 0 ? 0 : errno;
}
int posix_fallocate64(int file, off64_t offset, off64_t size)
    __attribute__((alias("posix_fallocate")));

int fsync(int file) {
  return faults::sync(SYS_fsync, file);
}
int fdatasync(int file) {
  return faults::sync(SYS_fdatasync, file);
}

int rename(const char* from, const char* to) noexcept {
  return faults::rename_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return faults::rename_at(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  return faults::rename_at(from_folder, from, to_folder, to, flags);
}
int mkdir(const char* name, mode_t mode) noexcept {
  return faults::make_folder(AT_FDCWD, name, mode);
}
int mkdirat(int folder, const char* name, mode_t mode) noexcept {
  return faults::make_folder(folder, name, mode);
}
int unlink(const char* name) noexcept {
  return faults::remove_at(AT_FDCWD, name, 0);
}
int unlinkat(int folder, const char* name, int flags) noexcept {
  return faults::remove_at(folder, name, flags);
}
int rmdir(const char* name) noexcept {
  return faults::remove_at(AT_FDCWD, name, AT_REMOVEDIR);
}
int remove(const char* name) noexcept {
  const int result = faults::remove_at(AT_FDCWD, name, 0);
  return result != 0 && errno == EISDIR ? faults::remove_at(AT_FDCWD, name, AT_REMOVEDIR) : result;
}

int close(int file) {
  const auto perform = [&](bool) { return ::syscall(SYS_close, file); };
  return static_cast<int>(faults::operate("close", faults::path_of(file), "", perform,
                                          [](long) { return faults::Done{.changed = false}; }));
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
