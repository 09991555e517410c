#include "trainer/tools/plan/goodput/measured_costs.h"

#include <algorithm>
#include <vector>

#include "trainer/tools/report/event.h"
#include "trainer/tools/report/run_data.h"

namespace trireme {
namespace {

std::optional<double> median(std::vector<double>& seconds) {
  std::erase_if(seconds, [](double one) { return one < 0; });
  if (seconds.empty()) return {};
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace

MeasuredCosts measured_costs(const std::filesystem::path& folder) {
  std::error_code why;
  if (!std::filesystem::exists(folder / "events.jsonl", why)) return {};
  std::vector<double> saves, snapshots, restarts;
  for (const RunEvent& event : read_run(folder).events) {
    const auto take = [&](std::vector<double>& to, const char* key) {
      if (const auto seconds = number_of(event, key)) to.push_back(*seconds);
    };
    if (is(event, "checkpoint")) take(saves, "stopped_seconds");
    if (is(event, "memory_snapshots")) take(snapshots, "mean_seconds");
    if (is(event, "recovered")) {
      const auto end = number_of(event, "end_seconds");
      const auto relaunch = number_of(event, "relaunch_seconds");
      if (end && relaunch) restarts.push_back(*end + *relaunch);
    }
  }
  return {.save = median(saves), .snapshot = median(snapshots), .restart = median(restarts)};
}

}  // namespace trireme
