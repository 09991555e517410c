#include "trainer/supervise/launch/world_progress.h"

#include <algorithm>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/host_name.h"
#include "parallel/comm/flight_recorder_reader.h"
#include "trainer/supervise/watchdog/process_state.h"
#include "trainer/supervise/watchdog/recorder_folder.h"

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

}  // namespace trireme
