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
