#include "checkpoint/memory/memory_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = "lock";

std::string prefix() {
  return say("trireme-", ::geteuid(), "-");
}

void make_own_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    throw_file_error("create folder", path, errno);
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) throw_file_error("look at", path, errno);
  if (S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() && (found.st_mode & 077) == 0) return;
  throw EnvironmentError(say(path.string(), " is accessible to other users"));
}

// Nullopt if another process has locked it.
std::optional<File> locked(const fs::path& folder) {
  File file = File::open_append(folder / kLock);
  if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno == EWOULDBLOCK) return std::nullopt;
  throw_file_error("lock", folder, errno);
}

// Removes everything in the folder except `names`.
void keep_only(const fs::path& folder, const std::set<std::string>& names) {
  std::vector<fs::path> others;
  std::error_code why;
  for (const auto& entry : fs::directory_iterator(folder, why)) {
    if (!names.contains(entry.path().filename().string())) others.push_back(entry.path());
  }
  for (const fs::path& path : others) {
    if (!why) fs::remove_all(path, why);
  }
  if (why) throw EnvironmentError(say("cannot clear ", folder.string(), ": ", why.message()));
}

fs::file_time_type last_change(const fs::path& folder) {
  std::error_code ignored;
  fs::file_time_type last = fs::last_write_time(folder, ignored);
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    last = std::max(last, fs::last_write_time(entry.path(), ignored));
  }
  return last;
}

std::uint64_t taken_by(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    struct stat found {};
    if (::lstat(entry.path().c_str(), &found) != 0) continue;
    bytes += static_cast<std::uint64_t>(found.st_blocks) * 512;
  }
  return bytes;
}

}  // namespace

MemoryFolder::MemoryFolder(fs::path place, const std::string& run)
    : place_(std::move(place)), path_(place_ / (prefix() + run)) {}

fs::path MemoryFolder::slot(int slot) const {
  return path_ / say("slot-", slot);
}

bool MemoryFolder::exists() const {
  std::error_code why;
  return fs::exists(fs::symlink_status(path_, why));
}

void MemoryFolder::take() {
  if (lock_) return;
  make_own_folder(path_);
  lock_ = locked(path_);
  if (!lock_) throw EnvironmentError(say("another process uses ", path_.string()));
  std::set<std::string> names{kLock};
  for (int i = 0; i < kSlots; ++i) {
    names.insert(slot(i).filename().string());
    make_own_folder(slot(i));
  }
  keep_only(path_, names);
}

void MemoryFolder::clear(int slot, const std::set<std::string>& but) const {
  keep_only(this->slot(slot), but);
}

void MemoryFolder::invalidate(int slot) const {
  const fs::path path = this->slot(slot) / Manifest::kFileName;
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_file_error("remove", path, errno);
}

void MemoryFolder::seal(int slot, const std::string& manifest) const {
  replace_text(this->slot(slot) / Manifest::kFileName, manifest);
}

void MemoryFolder::remove() {
  std::error_code why;
  fs::remove_all(path_, why);
  if (why) throw EnvironmentError(say("cannot remove ", path_.string(), ": ", why.message()));
  lock_.reset();
}

std::vector<fs::path> MemoryFolder::remove_forgotten() const {
  std::vector<fs::path> removed;
  std::error_code why;
  for (const auto& entry : fs::directory_iterator(place_, why)) {
    const fs::path& path = entry.path();
    const std::string name = path.filename().string();
    if (!name.starts_with(prefix()) || !is_uuid(name.substr(prefix().size())) || path == path_) {
      continue;
    }
    try {
      make_own_folder(path);
      if (fs::file_time_type::clock::now() - last_change(path) < kKeptFor) continue;
      const std::optional<File> lock = locked(path);
      if (lock && fs::remove_all(path, why) > 0) removed.push_back(path);
    } catch (const EnvironmentError&) {
      // Not removable by this user, or already gone.
    }
  }
  return removed;
}

void check_memory_room(const fs::path& place, const fs::path& folder, std::uint64_t bytes,
                       std::uint64_t available) {
  const std::uint64_t taken = taken_by(folder);
  const std::uint64_t more = bytes > taken ? bytes - taken : 0;
  struct statvfs status {};
  if (::statvfs(place.c_str(), &status) != 0)
    throw_file_error("ask the free space of", place, errno);
  const std::uint64_t room = std::uint64_t{status.f_bavail} * status.f_frsize;
  const auto check = [&](std::uint64_t has, const std::string& who) {
    if (more + more / 20 <= has) return;
    constexpr double kMebi = 1 << 20;
    throw EnvironmentError(say("two snapshots need ", static_cast<double>(more) / kMebi,
                               " MiB more on this node, and ", who, " has ",
                               static_cast<double>(has) / kMebi, " MiB"));
  };
  check(room, place.string());
  check(available, "its memory");
}

}  // namespace trireme::checkpoint
