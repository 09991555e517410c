#include "trainer/telemetry/pace.h"

#include <algorithm>
#include <vector>

namespace trireme {

void Pace::add(const StepMetrics& metrics, double now) {
  constexpr std::size_t kSmoothed = 20, kTimed = 100;
  recent_.push_back(
      {metrics.loss, metrics.step_seconds, metrics.tokens_per_second * metrics.step_seconds});
  if (recent_.size() > kSmoothed) recent_.pop_front();
  if (last_end_) {
    ++timed_;
    step_seconds_.push_back(metrics.step_seconds);
    if (step_seconds_.size() > kTimed) step_seconds_.pop_front();
    pause_seconds_ += std::max(now - *last_end_ - metrics.step_seconds, 0.0);
  }
  last_end_ = now;
}

double Pace::loss() const {
  double sum = 0;
  for (const Recent& step : recent_) sum += step.loss;
  return sum / static_cast<double>(std::max<std::size_t>(recent_.size(), 1));
}

double Pace::tokens_per_second() const {
  double tokens = 0, seconds = 0;
  for (const Recent& step : recent_) {
    tokens += step.tokens;
    seconds += step.seconds;
  }
  return seconds > 0 ? tokens / seconds : 0;
}

std::optional<double> Pace::seconds_left(std::int64_t steps) const {
  constexpr std::size_t kEnough = 5;
  // One pause soon after the start says nothing about their frequency.
  constexpr std::int64_t kLeastForPauses = 100;
  if (step_seconds_.size() < kEnough || steps <= 0) return std::nullopt;
  std::vector<double> sorted(step_seconds_.begin(), step_seconds_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double pause = pause_seconds_ / static_cast<double>(std::max(timed_, kLeastForPauses));
  return (*middle + pause) * static_cast<double>(steps);
}

}  // namespace trireme
