#include "trainer/tools/plan/save_interval.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/tools/report/event.h"
#include "trainer/tools/report/run_data.h"

namespace trireme {

double young_interval(double save, double between_failures) {
  return std::sqrt(2 * save * between_failures);
}

double daly_interval(double save, double between_failures) {
  if (save >= 2 * between_failures) return between_failures;
  const double ratio = save / (2 * between_failures);
  return young_interval(save, between_failures) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save;
}

double lost_share(double interval, double save, double between_failures, double restart) {
  return save / (interval + save) + (interval / 2 + restart) / between_failures;
}

std::optional<double> measured_save(const std::filesystem::path& folder) {
  std::error_code why;
  if (!std::filesystem::exists(folder / "events.jsonl", why)) return {};
  std::vector<double> seconds;
  for (const RunEvent& event : read_run(folder).events) {
    const auto stopped = number_of(event, "stopped_seconds");
    if (is(event, "checkpoint") && stopped) seconds.push_back(*stopped);
  }
  if (seconds.empty()) return {};
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace trireme
