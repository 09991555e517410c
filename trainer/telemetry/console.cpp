#include "trainer/telemetry/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "trainer/telemetry/human.h"
#include "trainer/telemetry/progress_line.h"

namespace trireme {
namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Console::Options complete(Console::Options options) {
  if (!options.seconds) options.seconds = steady_seconds;
  options.interval = std::max<std::int64_t>(options.interval, 1);
  return options;
}

int digits(std::int64_t number) {
  return static_cast<int>(fmt::formatted_size("{}", number));
}

}  // namespace

Console::Console(Options options)
    : options_(complete(std::move(options))),
      terminal_(options_.terminal.value_or(::isatty(::fileno(options_.out)) != 0)) {}

Console::~Console() {
  erase_bar();
}

void Console::banner(std::string_view title, const std::vector<Row>& rows) {
  print(title);
  std::size_t longest = 0;
  for (const auto& [key, value] : rows) longest = std::max(longest, key.size());
  for (const auto& [key, value] : rows) print(fmt::format("  {:<{}}  {}", key, longest, value));
}

void Console::step(const StepMetrics& metrics) {
  const double now = options_.seconds();
  // The span over which the time of a step is taken: long enough to smooth, short
  // enough to follow a change of speed.
  constexpr std::size_t kRecentSteps = 100;
  recent_.emplace_back(metrics.step, now);
  if (recent_.size() > kRecentSteps) recent_.pop_front();
  last_step_seconds_ = metrics.step_seconds;
  interval_seconds_ += metrics.step_seconds;
  interval_tokens_ += metrics.tokens_per_second * metrics.step_seconds;
  interval_mfu_ += metrics.mfu * metrics.step_seconds;

  const bool last = metrics.step == options_.total_steps;
  if (first_ || last || metrics.step % options_.interval == 0) {
    print(step_line(metrics));
    first_ = false;
    interval_seconds_ = interval_tokens_ = interval_mfu_ = 0;
  }
  if (terminal_ && options_.total_steps > 0) {
    if (last) {
      erase_bar();
    } else {
      draw_bar(metrics, now);
    }
  }
}

std::string Console::step_line(const StepMetrics& metrics) const {
  const double seconds = interval_seconds_ > 0 ? interval_seconds_ : 1;
  std::string line = fmt::format("step {:>{}}", metrics.step, digits(options_.total_steps));
  if (options_.total_steps > 0) line += fmt::format("/{}", options_.total_steps);
  line += fmt::format(" | loss {:.4f} | norm {:.4f} | lr {:.2e} | {} tok/s", metrics.loss,
                      metrics.grad_norm, metrics.lr, human_count(interval_tokens_ / seconds));
  if (metrics.mfu > 0) line += fmt::format(" | MFU {:.1f}%", 100 * interval_mfu_ / seconds);
  line += fmt::format(" | {}",
                      human_bytes(std::max(metrics.memory_peak_bytes, metrics.process_peak_bytes)));
  if (const auto left = seconds_left(metrics.step))
    line += fmt::format(" | ETA {}", human_duration(*left));
  return line;
}

void Console::validation(const StepMetrics& metrics, double seconds) {
  std::string line = fmt::format("step {:>{}}", metrics.step,
                                 digits(std::max(options_.total_steps, metrics.step)));
  if (options_.total_steps > 0) line += fmt::format("/{}", options_.total_steps);
  line += fmt::format(" | validation loss {:.4f}", metrics.validation_loss.value_or(0));
  for (const MeasuredSet& set : metrics.validation_sets) {
    line += fmt::format(" | {} {:.4f}", set.name, set.loss);
  }
  if (metrics.validation_bits_per_byte) {
    line += fmt::format(" | {:.4f} bits/byte", *metrics.validation_bits_per_byte);
  }
  print(fmt::format("{} | took {}", line, human_duration(seconds)));
}

void Console::note(std::string_view line) {
  print(line);
}

void Console::print(std::string_view line) {
  erase_bar();
  put(fmt::format("{}\n", line));
}

// Unlike fmt::print, does not throw: a full disk behind a redirected stderr must not
// end the run.
void Console::put(const std::string& text) {
  std::fputs(text.c_str(), options_.out);
  std::fflush(options_.out);
}

void Console::draw_bar(const StepMetrics& metrics, double now) {
  constexpr double kRedrawSeconds = 0.1;
  if (bar_shown_ && now - bar_drawn_at_ < kRedrawSeconds) return;
  Progress progress{metrics.step, options_.total_steps, {}};
  progress.parts.push_back(fmt::format("loss {:.4f}", metrics.loss));
  if (const auto left = seconds_left(metrics.step)) {
    progress.parts.push_back(fmt::format("ETA {}", human_duration(*left)));
  }
  progress.parts.push_back(human_count(metrics.tokens_per_second) + " tok/s");
  // The last column stays free: a full line makes some terminals wrap.
  const int width = terminal_width(::fileno(options_.out)) - 1;
  put(fmt::format("\r{}\x1b[K", progress_line(progress, width)));
  bar_shown_ = true;
  bar_drawn_at_ = now;
}

void Console::erase_bar() {
  if (!bar_shown_) return;
  put("\r\x1b[K");
  bar_shown_ = false;
}

std::optional<double> Console::seconds_left(std::int64_t step) const {
  if (options_.total_steps <= 0) return std::nullopt;
  const auto [oldest_step, oldest_time] = recent_.front();
  const auto [newest_step, newest_time] = recent_.back();
  const double one = newest_step > oldest_step ? (newest_time - oldest_time) /
                                                     static_cast<double>(newest_step - oldest_step)
                                               : last_step_seconds_;
  return one * static_cast<double>(options_.total_steps - step);
}

}  // namespace trireme
