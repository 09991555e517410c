#include "trainer/tools/plan/measured_save.h"

#include <algorithm>
#include <vector>

#include "trainer/tools/report/event.h"
#include "trainer/tools/report/run_data.h"

namespace trireme {

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
