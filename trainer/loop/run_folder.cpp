#include "trainer/loop/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "model/base/file.h"
#include "model/base/log.h"

namespace trireme {
namespace {

// A user who can write to a folder can replace its files, regardless of who owns them.
void warn_of_other_writers(const std::filesystem::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return;
  if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
    log_warning("{}: every user of this machine can replace its files; fix: chmod o-w {}",
                folder.string(), folder.string());
  } else if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    log_warning("{}: owned by user {}, who can replace what user {} writes there", folder.string(),
                status.st_uid, ::geteuid());
  }
}

std::filesystem::path made(const std::filesystem::path& folder) {
  make_folders(folder);
  warn_of_other_writers(folder);
  return folder;
}

// Readers look for RUN_DIR/checkpoints; with checkpoint.folder elsewhere (another file system),
// that name is a link to it.
std::filesystem::path linked(const std::filesystem::path& run, const RunConfig& config) {
  namespace fs = std::filesystem;
  const fs::path name = run / "checkpoints";
  const fs::path wanted = checkpoint_folder(config);
  if (wanted.lexically_normal() == name.lexically_normal()) return run;
  make_folders(wanted);
  std::error_code why;
  if (fs::equivalent(name, wanted, why)) return run;
  if (fs::exists(fs::symlink_status(name, why))) {
    throw CheckpointError(say("checkpoint.folder = \"", wanted.string(), "\": ", name.string(),
                              " is already another folder; move its checkpoints there, or remove "
                              "the key"));
  }
  fs::create_directory_symlink(wanted, name, why);
  if (why) throw EnvironmentError(say("cannot link ", name.string(), ": ", why.message()));
  sync_folder(run);
  return run;
}

// A new lease, or that of the supervisor that started this run.
std::unique_ptr<checkpoint::Lease> lease_of(const std::filesystem::path& run, double term_s) {
  const char* token = std::getenv(checkpoint::Lease::kTokenVariable);
  return token ? checkpoint::Lease::join(run, token)
               : std::make_unique<checkpoint::Lease>(run, term_s);
}

}  // namespace

RunFolder::RunFolder(const RunConfig& config, const Team& team)
    : path(team.led([&] {
        lease = lease_of(made(config.job.dump_folder), config.elastic.heartbeat_timeout_s);
        return linked(config.job.dump_folder, config).string();
      })),
      incarnation(std::stoll(team.led([&] { return std::to_string(lease->incarnation()); }))),
      store(path, lease.get(), team) {}

}  // namespace trireme
