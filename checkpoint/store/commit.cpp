#include "checkpoint/store/commit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "checkpoint/format/names.h"
#include "checkpoint/hdf5/view_file.h"
#include "checkpoint/read/window.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

void rename_or_fail(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_file_error("rename to", to, errno);
}

fs::path unique(const fs::path& folder, const char* prefix, const std::string& name) {
  return folder / say(prefix, name, "-", new_uuid());
}

// The one rename. If the step already exists, exchanges the two folders atomically, so that the
// step exists at any time; the old contents are then under the temporary name and are removed with
// it.
void rename_to_step(const fs::path& partial, const fs::path& final) {
  const fs::path folder = partial.parent_path();
  if (::rename(partial.c_str(), final.c_str()) != 0) {
    if (errno != EEXIST && errno != ENOTEMPTY) throw_file_error("rename to", final, errno);
    if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0) {
      sync_folder(folder);
      std::error_code ignored;
      fs::remove_all(partial, ignored);
      return;
    }
    if (errno != EINVAL && errno != ENOSYS) throw_file_error("rename to", final, errno);
    rename_or_fail(final, unique(folder, kTrashPrefix, final.filename()));
    rename_or_fail(partial, final);
  }
  sync_folder(folder);
}

// A temporary file of replace_text().
bool is_replacement(const std::string& name) {
  constexpr std::string_view kMark = ".tmp-";
  const std::size_t at = name.rfind(kMark);
  return at != std::string::npos && at + kMark.size() < name.size() &&
         name.find_first_not_of("0123456789", at + kMark.size()) == std::string::npos;
}

}  // namespace

PartialCheckpoint::PartialCheckpoint(const fs::path& folder, std::int64_t step)
    : path_(unique(folder, kPartialPrefix, step_name(step))) {
  if (::mkdir(path_.c_str(), 0777) != 0) throw_file_error("create folder", path_, errno);
}

PartialCheckpoint::~PartialCheckpoint() {
  std::error_code ignored;  // the next start removes leftovers
  fs::remove_all(path_, ignored);
}

void complete(const fs::path& partial, Manifest& manifest) {
  const fs::path view = partial / Manifest::kViewName;
  hdf5::write_view(view, manifest);
  const Scan scan = scan_file(view, {});
  manifest.view = {Manifest::kViewName, scan.bytes, scan.crc32c};
  const std::string text = to_text(manifest);
  if (text.size() > Manifest::kMaxText) {
    throw CheckpointError(say(partial.string(), ": a manifest of ", text.size(),
                              " bytes exceeds the limit of readers"));
  }
  File file = File::create_new(partial / Manifest::kFileName);
  file.write_all(text);
  file.sync();
  file.close();
  sync_folder(partial);
}

void publish(const fs::path& partial, std::int64_t step) {
  const fs::path folder = partial.parent_path();
  rename_to_step(partial, folder / step_name(step));
  try {
    replace_text(folder / "latest", step_name(step) + "\n");
  } catch (const EnvironmentError&) {
  }
}

void remove_checkpoint(const fs::path& path) {
  const fs::path trash = unique(path.parent_path(), kTrashPrefix, path.filename());
  rename_or_fail(path, trash);
  std::error_code why;
  fs::remove_all(trash, why);
  if (why) throw EnvironmentError(say("cannot remove ", trash.string(), ": ", why.message()));
}

void sweep_leftovers(const fs::path& folder) {
  std::error_code why;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder, why)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPartialPrefix) || name.starts_with(kTrashPrefix) ||
        is_replacement(name)) {
      leftovers.push_back(entry.path());
    }
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, why);
}

void check_space(const fs::path& folder, std::uint64_t bytes) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0)
    throw_file_error("ask the free space of", folder, errno);
  const std::uint64_t free = std::uint64_t{status.f_bavail} * status.f_frsize;
  const std::uint64_t wanted = bytes + bytes / 20;
  if (free >= wanted) return;
  constexpr double kMebi = 1 << 20;
  throw EnvironmentError(say("not enough space for a checkpoint in ", folder.string(),
                             ": it needs ", static_cast<double>(wanted) / kMebi, " MiB, ",
                             static_cast<double>(free) / kMebi, " MiB are free"));
}

}  // namespace trireme::checkpoint
