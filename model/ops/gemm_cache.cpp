#include "model/ops/gemm_cache.h"

#include <sys/file.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/log.h"

namespace trireme::ops {
namespace {

// Held from reading the file to replacing it. A holder may be stopped, or the file system may not
// support locks: waits are bounded.
class Lock {
 public:
  explicit Lock(const std::filesystem::path& path) : file_(File::open_append(path)) {
    using namespace std::chrono_literals;
    for (int attempt = 0; attempt < 100; ++attempt) {
      if (::flock(file_.descriptor(), LOCK_EX | LOCK_NB) == 0) return;
      if (errno != EWOULDBLOCK && errno != EINTR) break;
      std::this_thread::sleep_for(10ms);
    }
    throw EnvironmentError(say("cannot lock ", path.string(), ": ", std::strerror(errno)));
  }

 private:
  File file_;
};

std::string file_name(const std::string& machine) {
  std::string name = "gemm-";
  for (const char letter : machine) {
    if (std::isalnum(static_cast<unsigned char>(letter)) || letter == '.')
      name += letter;
    else if (name.back() != '-')
      name += '-';
  }
  return name + ".json";
}

}  // namespace

GemmCache::GemmCache(const std::filesystem::path& folder, std::string machine,
                     ChoiceTable::Knows knows)
    : machine_(std::move(machine)), knows_(knows) {
  if (!folder.empty()) file_ = folder / file_name(machine_);
}

std::filesystem::path GemmCache::user_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
    return std::filesystem::path(cache) / "trireme";
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::filesystem::path(home) / ".cache" / "trireme";
  return {};
}

std::optional<std::string> GemmCache::find(const std::string& shape) {
  if (file_.empty()) return std::nullopt;
  if (!read_) {
    try {
      read();
    } catch (const Error& error) {
      give_up(error.what());
      return std::nullopt;
    }
  }
  return known_.find(machine_, shape);
}

std::string GemmCache::settle(const std::string& shape, const std::string& measured) {
  if (file_.empty()) return measured;
  try {
    make_folders(file_.parent_path());
    std::filesystem::path beside = file_;
    const Lock lock(beside += ".lock");
    read();
    if (const auto settled = known_.find(machine_, shape)) return *settled;
    known_.set(machine_, shape, measured);
    replace_text(file_, known_.json());
  } catch (const Error& error) {
    give_up(error.what());
  }
  return measured;
}

// A file that cannot be parsed is ignored and overwritten.
void GemmCache::read() {
  read_ = true;
  known_ = {};
  if (!std::filesystem::exists(file_)) return;
  try {
    known_ = ChoiceTable::parse(read_text(file_), knows_);
  } catch (const ConfigError& error) {
    log_warning("{}: {}; measuring again", file_.string(), error.what());
  }
}

void GemmCache::give_up(const std::string& why) {
  log_warning("cannot save matmul timings for later runs: {}", why);
  file_.clear();
}

}  // namespace trireme::ops
