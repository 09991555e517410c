#include "trainer/tools/plan/goodput/measured_costs.h"

#include <utility>
#include <vector>

#include "model/base/median.h"
#include "trainer/tools/report/event.h"
#include "trainer/tools/report/run_data.h"

namespace trireme {
namespace {

std::optional<double> usual(std::vector<double> seconds) {
  std::erase_if(seconds, [](double one) { return one < 0; });
  if (seconds.empty()) return {};
  return median(std::move(seconds));
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
  return {.save = usual(saves), .snapshot = usual(snapshots), .restart = usual(restarts)};
}

}  // namespace trireme
