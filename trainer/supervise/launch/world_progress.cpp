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

// Skips ledgers that cannot be read: they are being created.
std::vector<FlightRecorderReader> ledgers_of(const std::filesystem::path& run_dir) {
  std::vector<FlightRecorderReader> found;
  std::vector<std::filesystem::path> paths;
  try {
    paths = ledgers_in(run_dir / kRecorderFolder);
  } catch (const EnvironmentError&) {
    return found;  // no rank has created its ledger yet
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
  for (const FlightRecorderReader& ledger : ledgers_of(run_dir)) {
    const FlightRecorderPage page = ledger.page();
    all.ticks += page.progress.tick;
    // A starting rank may wait for storage, but not all of them for the longer storage limit.
    const bool starts = page.phase() == flight::Phase::kStart;
    all.limit_s = std::max(all.limit_s, starts ? limits.usual_s : limits.of(page));
  }
  return all;
}

bool all_ranks_stopped(const std::filesystem::path& run_dir) {
  const std::vector<FlightRecorderReader> ledgers = ledgers_of(run_dir);
  const std::string here = own_host_name();
  return !ledgers.empty() && std::all_of(ledgers.begin(), ledgers.end(), [&](const auto& ledger) {
    const flight::Header header = ledger.header();
    return here == header.host.data() &&
           state_of_process(header.pid, header.started) == ProcessState::kStopped;
  });
}

}  // namespace trireme
