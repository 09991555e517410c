#include "trainer/supervise/node_agent/own_processes.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "model/base/error.h"
#include "model/base/host_name.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSegments = "/dev/shm";
constexpr std::time_t kYoungS = 2;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : std::string();
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> all;
  std::error_code ended;
  for (const auto& entry : fs::directory_iterator("/proc", ended)) {
    const std::string name = entry.path().filename().string();
    pid_t id = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (bad == std::errc() && end == name.data() + name.size()) all.push_back(id);
  }
  return all;
}

// The first environment variable with this beginning, or an empty string.
std::string_view variable_with(std::string_view environment, std::string_view beginning) {
  while (!environment.empty()) {
    const std::string_view variable = environment.substr(0, environment.find('\0'));
    if (variable.starts_with(beginning)) return variable;
    environment.remove_prefix(std::min(environment.size(), variable.size() + 1));
  }
  return {};
}

// A zombie has no environment.
bool is_there(pid_t process, const std::string& word, const std::string& also) {
  const std::string environment = text_of(fs::path("/proc") / std::to_string(process) / "environ");
  if (variable_with(environment, word) != word) return false;
  const auto name = std::string_view(also).substr(0, also.find('=') + 1);
  const std::string_view other = also.empty() ? also : variable_with(environment, name);
  return other.empty() || other == also;
}

}  // namespace

std::vector<pid_t> processes_with(const std::string& word, const std::string& also) {
  std::vector<pid_t> found;
  for (const pid_t process : all_processes()) {
    if (process != ::getpid() && is_there(process, word, also)) found.push_back(process);
  }
  return found;
}

std::vector<pid_t> end_processes(const std::string& word, const std::string& also, double seconds) {
  constexpr useconds_t kPause = 5'000;
  const double end = seconds_now() + seconds;
  for (;;) {
    const std::vector<pid_t> left = processes_with(word, also);
    if (left.empty() || seconds_now() > end) return left;
    for (const pid_t process : left) ::kill(process, SIGKILL);
    ::usleep(kPause);
  }
}

int sweep_segments() {
  std::vector<fs::path> segments;
  std::error_code ended;
  for (const auto& entry : fs::directory_iterator(kSegments, ended)) {
    struct stat facts {};
    const bool is_ours = entry.path().filename().string().starts_with("vader_segment.") &&
                         ::stat(entry.path().c_str(), &facts) == 0 && facts.st_uid == ::getuid();
    if (is_ours && std::time(nullptr) - facts.st_ctime >= kYoungS) segments.push_back(entry.path());
  }
  if (segments.empty()) return 0;
  for (const pid_t process : all_processes()) {
    const std::string maps = text_of(fs::path("/proc") / std::to_string(process) / "maps");
    std::erase_if(segments, [&](const fs::path& segment) {
      return maps.find(segment.string() + "\n") != std::string::npos;
    });
  }
  int removed = 0;
  for (const fs::path& segment : segments) removed += ::unlink(segment.c_str()) == 0 ? 1 : 0;
  return removed;
}

int sweep_sessions() {
  constexpr std::string_view kBeginning = "pid.";
  const char* const temporary = std::getenv("TMPDIR");
  const fs::path all =
      fs::path(temporary ? temporary : "/tmp") / say("ompi.", own_host_name(), ".", ::getuid());
  int removed = 0;
  std::error_code why;
  std::vector<fs::path> sessions;
  for (const auto& entry : fs::directory_iterator(all, why)) sessions.push_back(entry.path());
  for (const fs::path& session : sessions) {
    const std::string name = session.filename().string();
    if (!name.starts_with(kBeginning)) continue;
    // A zombie has no program, and that of another user's process cannot be read.
    const fs::path process = fs::path("/proc") / name.substr(kBeginning.size());
    if (!fs::read_symlink(process / "exe", why).empty()) continue;
    removed += fs::remove_all(session, why) > 0 ? 1 : 0;
  }
  fs::remove(all, why);  // as mpirun does; fails if it is not empty
  return removed;
}

}  // namespace trireme
