#include "trainer/telemetry/step_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/base/human.h"

namespace trireme {
namespace {

constexpr std::size_t kLongestDuration = 6;  // "59m59s"

std::string step_text(const StepLine& line, bool with_total) {
  const std::size_t digits = fmt::formatted_size("{}", std::max(line.total, line.step));
  std::string text = fmt::format("step {:>{}}", line.step, digits);
  if (with_total && line.total > 0) text += fmt::format("/{}", line.total);
  return text;
}

// "3.0e-4"
std::string short_scientific(double value) {
  std::string text = fmt::format("{:.1e}", value);
  const std::size_t sign = text.find('e') + 1;
  if (sign != 0 && sign + 2 < text.size() && text[sign + 1] == '0') text.erase(sign + 1, 1);
  if (sign != 0 && sign < text.size() && text[sign] == '+') text.erase(sign, 1);
  return text;
}

std::string short_norm(double value) {
  return std::abs(value) < 1000 ? fmt::format("{:#.3g}", value) : short_scientific(value);
}

}  // namespace

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

std::string step_line(const StepLine& line, StepForm form) {
  const bool full = form == StepForm::kFull;
  std::vector<std::string> parts{step_text(line, form < StepForm::kNoTotal),
                                 fmt::format("loss {:.4f}", line.loss)};
  if (full) {
    parts.push_back(fmt::format("norm {:.4f}", line.grad_norm));
    parts.push_back(fmt::format("lr {:.2e}", line.lr));
  } else {
    parts.push_back("norm " + short_norm(line.grad_norm));
    parts.push_back("lr " + short_scientific(line.lr));
  }
  parts.push_back(human_count(line.tokens_per_second) + " tok/s");
  if (line.mfu > 0) parts.push_back(fmt::format("MFU {:.{}f}%", 100 * line.mfu, full ? 1 : 0));
  if (form < StepForm::kNoMemory) parts.push_back(human_bytes(line.memory_bytes));
  if (line.seconds_left) parts.push_back("ETA " + human_duration(*line.seconds_left));
  return fmt::format("{}", fmt::join(parts, full ? " | " : " "));
}

StepForm step_form(const StepLine& line, int width) {
  StepLine longest = line;
  if (line.total > 0) longest.seconds_left = 0;
  const std::size_t more =
      line.total > 0 ? kLongestDuration - std::min(kLongestDuration, human_duration(0).size()) : 0;
  for (const StepForm form : {StepForm::kFull, StepForm::kShort, StepForm::kNoTotal}) {
    const std::size_t size = step_line(longest, form).size() + more;
    if (size <= static_cast<std::size_t>(std::max(width, 0))) return form;
  }
  return StepForm::kNoMemory;
}

}  // namespace trireme
