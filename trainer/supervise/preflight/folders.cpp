#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/human.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/step_plan.h"
#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {
namespace {

namespace fs = std::filesystem;

// The folder itself or, if it does not exist yet, its nearest existing parent.
fs::path nearest_existing(const fs::path& folder) {
  fs::path path = folder;
  while (!fs::exists(path) && path != path.parent_path()) path = path.parent_path();
  if (!fs::is_directory(path)) throw EnvironmentError(say(path.string(), " is not a folder"));
  return path;
}

[[noreturn]] void fail(const std::string& what, const fs::path& path) {
  throw EnvironmentError(say("cannot ", what, " ", path.string(), ": ", std::strerror(errno)));
}

// A temporary file, removed by the destructor.
class TrialFile {
 public:
  explicit TrialFile(const fs::path& folder) {
    std::string name = (folder / ".trireme-preflight-XXXXXX").string();
    const int descriptor = ::mkstemp(name.data());
    if (descriptor < 0) fail("write to", folder);
    ::close(descriptor);
    path_ = name;
  }
  TrialFile(const TrialFile&) = delete;
  TrialFile& operator=(const TrialFile&) = delete;
  ~TrialFile() { ::unlink(path_.c_str()); }

  // Writes and syncs the file; returns bytes per second.
  double write(std::size_t bytes) const {
    std::vector<std::byte> content(bytes);
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<std::byte>(i % 251);
    const auto start = std::chrono::steady_clock::now();
    File file = File::create(path_);
    file.write_all(content);
    file.sync();
    file.close();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<std::byte> found(bytes);
    File::open_read(path_).read_at(0, found);
    if (found != content) {
      throw EnvironmentError(say(path_.string(), ": what was written reads back differently"));
    }
    return static_cast<double>(bytes) / std::max(seconds, 1e-9);
  }
  void rename() {
    const fs::path to = path_.string() + "-renamed";
    if (::rename(path_.c_str(), to.c_str()) != 0) fail("rename", path_);
    path_ = to;
    sync_folder(path_.parent_path());
  }
  // Requires that of two descriptors only one gets the lock.
  void lock() const {
    const File first = File::open_read(path_), second = File::open_read(path_);
    if (::flock(first.descriptor(), LOCK_EX | LOCK_NB) != 0) fail("lock", path_);
    if (::flock(second.descriptor(), LOCK_EX | LOCK_NB) == 0) {
      throw EnvironmentError(
          say(path_.parent_path().string(),
              ": file locks do not work here, so two jobs could write to one run folder"));
    }
  }

 private:
  fs::path path_;
};

Figures tried(const fs::path& folder, bool thorough) {
  constexpr std::size_t kLarge = std::size_t{16} << 20, kSmall = 4096;
  const fs::path there = nearest_existing(folder);
  TrialFile file(there);
  Figures found{{"folder", folder.string()}};
  const double rate = file.write(thorough ? kLarge : kSmall);
  if (thorough) found["bytes_per_second"] = rate;
  file.rename();
  file.lock();
  found["free_bytes"] = fs::space(there).available;
  return found;
}

Judgment judge_folders(const std::vector<Figures>& by_rank, bool thorough) {
  Judgment judgment;
  for (const char* name : {"run", "checkpoints"}) {
    if (!by_rank.front().contains(name)) continue;
    std::vector<Figures> of_folder;
    for (const Figures& figures : by_rank) of_folder.push_back(figures.at(name));
    const std::vector<double> free = numbers_of(of_folder, "free_bytes");
    judgment.text += fmt::format(
        "{}{}: {} free", judgment.text.empty() ? "" : "; ",
        of_folder.front()["folder"].get<std::string>(),
        human_bytes(static_cast<std::uint64_t>(*std::min_element(free.begin(), free.end()))));
    if (!thorough) continue;
    const std::vector<double> rates = numbers_of(of_folder, "bytes_per_second");
    judgment.text += fmt::format(
        ", {}/s in total, slowest rank {}/s",
        human_bytes(static_cast<std::uint64_t>(std::accumulate(rates.begin(), rates.end(), 0.0))),
        human_bytes(static_cast<std::uint64_t>(*std::min_element(rates.begin(), rates.end()))));
  }
  if (!thorough) return judgment;
  const char* last = by_rank.front().contains("checkpoints") ? "checkpoints" : "run";
  const std::vector<double> parts = numbers_of(by_rank, "checkpoint_bytes");
  const double needed = 2 * std::accumulate(parts.begin(), parts.end(), 0.0);
  judgment.text +=
      fmt::format(", two checkpoints need {}", human_bytes(static_cast<std::uint64_t>(needed)));
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Figures& folder = by_rank[rank].at(last);
    const auto free = folder["free_bytes"].get<std::uint64_t>();
    if (static_cast<double>(free) >= needed) continue;
    judgment.faults.push_back({{static_cast<int>(rank)},
                               fmt::format("{} has {} free, but two checkpoints need {}",
                                           folder["folder"].get<std::string>(), human_bytes(free),
                                           human_bytes(static_cast<std::uint64_t>(needed)))});
  }
  return judgment;
}

}  // namespace

Check folders(const RunConfig& config, const RankGroups& groups, Device device, bool thorough) {
  const auto measure = [&config, &groups, device, thorough] {
    const StepPlan plan = plan_step(engine_spec(config), groups, device);
    Figures found{{"checkpoint_bytes", plan.unique_state_bytes},
                  {"run", tried(config.job.dump_folder, thorough)}};
    const fs::path checkpoints = checkpoint_folder(config);
    if (*checkpoints.lexically_relative(config.job.dump_folder).begin() == "..") {
      found["checkpoints"] = tried(checkpoints, thorough);
    }
    return found;
  };
  return {"folders", measure, [thorough](const std::vector<Figures>& by_rank) {
            return judge_folders(by_rank, thorough);
          }};
}

}  // namespace trireme::preflight
