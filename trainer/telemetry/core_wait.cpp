#include "trainer/telemetry/core_wait.h"

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace trireme {

std::optional<double> seconds_without_core() {
  std::error_code gone;
  std::uint64_t nanoseconds = 0;
  bool counted = false;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::ifstream file(task.path() / "schedstat");
    std::uint64_t ran = 0, waited = 0;
    if (file >> ran >> waited) {
      nanoseconds += waited;
      counted = true;
    }
  }
  if (!counted) return std::nullopt;
  return 1e-9 * static_cast<double>(nanoseconds);
}

std::optional<double> CoreWait::look(double now, std::optional<double> waited) {
  constexpr double kMost = 0.25;
  if (has_reported_ || !waited) return std::nullopt;
  if (!begin_) {
    begin_ = now;
    waited_before_ = *waited;
    return std::nullopt;
  }
  const double stretch = now - *begin_;
  if (stretch < stretch_seconds_) return std::nullopt;
  const double share = (*waited - waited_before_) / (stretch * threads_);
  begin_ = now;
  waited_before_ = *waited;
  if (share <= kMost) return std::nullopt;
  has_reported_ = true;
  return share;
}

}  // namespace trireme
