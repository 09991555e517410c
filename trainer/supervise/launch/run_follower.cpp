#include "trainer/supervise/launch/run_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/host_name.h"
#include "model/base/json.h"
#include "parallel/comm/flight_recorder_reader.h"
#include "trainer/supervise/watchdog/process_state.h"
#include "trainer/supervise/watchdog/recorder_folder.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

// Skips recordings that cannot be read: they are being created.
std::vector<FlightRecorderReader> recordings_of(const std::filesystem::path& run_dir) {
  std::vector<FlightRecorderReader> found;
  std::vector<std::filesystem::path> paths;
  try {
    paths = recordings_in(run_dir / kRecorderFolder);
  } catch (const EnvironmentError&) {
    return found;  // no rank has created its recording yet
  }
  for (const auto& path : paths) {
    try {
      found.emplace_back(path);
    } catch (const Error&) {
      continue;
    }
  }
  return found;
}

using nlohmann::json;

// A file opened for reading; the descriptor is -1 if the file is missing.
class ReadOnlyFile {
 public:
  explicit ReadOnlyFile(const std::filesystem::path& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~ReadOnlyFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  std::uint64_t size() const {
    struct stat facts {};
    return ::fstat(descriptor_, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
  }
  // Returns fewer bytes at the end of the file.
  std::string read(std::uint64_t from, std::size_t bytes) const {
    std::string text(bytes, '\0');
    const ssize_t got = ::pread(descriptor_, text.data(), bytes, static_cast<off_t>(from));
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return text;
  }

 private:
  int descriptor_;
};

// The ranks that a preflight event reports as failed, each once.
RunFollower::UnfitRanks failed_ranks_of(const json& preflight) {
  RunFollower::UnfitRanks unfit;
  const auto hosts = preflight.value("hosts", std::vector<std::string>{});
  for (const json& check : preflight.value("checks", json::array())) {
    for (const json& fault : check.value("faults", json::array())) {
      for (const std::size_t rank : fault.value("ranks", std::vector<std::size_t>{})) {
        const int number = static_cast<int>(rank);
        if (rank >= hosts.size() || std::count(unfit.ranks.begin(), unfit.ranks.end(), number) > 0)
          continue;
        unfit.ranks.push_back(number);
        unfit.hosts.push_back(hosts[rank]);
      }
      if (!unfit.why.empty()) unfit.why += "; ";
      unfit.why += check.value("name", "") + ": " + fault.value("why", "");
    }
  }
  return unfit;
}

}  // namespace

WorldProgress world_progress(const std::filesystem::path& run_dir, const StallLimits& limits) {
  WorldProgress all;
  for (const FlightRecorderReader& recording : recordings_of(run_dir)) {
    const FlightRecorderPage page = recording.page();
    all.ticks += page.progress.tick;
    // A starting rank may wait for storage, but not all of them for the longer storage limit.
    const bool starts = page.phase() == flight::Phase::kStart;
    all.limit_s = std::max(all.limit_s, starts ? limits.usual_s : limits.of(page));
  }
  return all;
}

bool all_ranks_stopped(const std::filesystem::path& run_dir) {
  const std::vector<FlightRecorderReader> recordings = recordings_of(run_dir);
  const std::string here = own_host_name();
  return !recordings.empty() &&
         std::all_of(recordings.begin(), recordings.end(), [&](const auto& recording) {
           const flight::Header header = recording.header();
           return here == header.host.data() &&
                  state_of_process(header.pid, header.started) == ProcessState::kStopped;
         });
}

std::int64_t newest_step(const std::filesystem::path& run_dir) {
  constexpr std::uint64_t kTail = 8192;  // bytes; longer than any line
  const ReadOnlyFile file(run_dir / "metrics.jsonl");
  const std::uint64_t size = file.size();
  std::string text = file.read(size - std::min(size, kTail), std::min(size, kTail));
  const std::size_t end = text.rfind('\n');
  if (end == std::string::npos) return 0;
  text.resize(end);
  const json line = json::parse(text.substr(text.rfind('\n') + 1), nullptr, false);
  return line.is_object() ? line.value("step", std::int64_t{0}) : 0;
}

RunFollower::RunFollower(std::filesystem::path run_dir) : run_dir_(std::move(run_dir)) {
  read_ = ReadOnlyFile(run_dir_ / "events.jsonl").size();
}

void RunFollower::look() {
  const ReadOnlyFile file(run_dir_ / "events.jsonl");
  // The next writer truncates a line torn by a kill.
  if (file.size() < read_) {
    read_ = file.size();
    part_.clear();
  }
  for (std::string text = file.read(read_, 65536); !text.empty(); text = file.read(read_, 65536)) {
    read_ += text.size();
    part_ += text;
  }
  for (std::size_t end = part_.find('\n'); end != std::string::npos; end = part_.find('\n')) {
    take(part_.substr(0, end));
    part_.erase(0, end + 1);
  }
  if (!start_) return;
  const std::int64_t newest = newest_step(run_dir_);
  if (newest <= start_->step) return;
  step_ = std::max(step_, newest);
  if (!first_step_at_) first_step_at_ = seconds_now();
}

void RunFollower::take(const std::string& line) {
  const json event = json::parse(line, nullptr, false);
  if (!event.is_object()) return;
  const std::string name = event.value("event", "");
  if (name == "start" || name == "resume") {
    start_ = Start{.step = event.value("step", std::int64_t{0}),
                   .from = event.value("from", ""),
                   .in_memory = event.value("in_memory", false),
                   .load_seconds = event.value("load_seconds", 0.0),
                   .at = seconds_now()};
    step_ = start_->step;
  } else if (name == "failure" && event.contains("ranks") && !failure_) {
    failure_ = Failure{.text = event.value("text", ""),
                       .has_own_code = event.value("health", "") == "failed",
                       .detect_seconds = json_at<double>(event, "detect_seconds"),
                       .at = seconds_now()};
    // If only two replicas differ, neither can be blamed.
    if (event.value("health", "") == "differs" && event.value("by_majority", false)) {
      unfit_ = UnfitRanks{.ranks = event.value("ranks", std::vector<int>{}),
                          .hosts = event.value("hosts", std::vector<std::string>{}),
                          .why = event.value("text", "")};
    }
  } else if (name == "preflight" && !event.value("passed", true)) {
    unfit_ = failed_ranks_of(event);
  } else if (name == "stop") {
    stopped_ = event.value("exit_code", 0);
    stopped_at_ = seconds_now();
  }
}

}  // namespace trireme
