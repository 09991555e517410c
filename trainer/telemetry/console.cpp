#include "trainer/telemetry/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "model/base/human.h"
#include "model/base/terminal.h"

namespace trireme {
namespace {

// Breaks a text at spaces into lines of at most `width` columns. Longer words stay whole, and so
// does a text that starts with a path, which may contain spaces.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  const bool is_path = text.starts_with('/');
  while (text.size() > width && !is_path) {
    std::size_t end = text.rfind(' ', width);
    if (end == std::string_view::npos || end == 0) end = text.find(' ', width);
    if (end == std::string_view::npos) break;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  lines.emplace_back(text);
  return lines;
}

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
      terminal_(options_.terminal.value_or(can_rewrite_lines(::fileno(options_.out)))) {}

Console::~Console() {
  erase_live();
}

void Console::banner(std::string_view title, const std::vector<Row>& rows) {
  print(title);
  std::size_t longest = 0;
  for (const auto& [key, value] : rows) longest = std::max(longest, key.size());
  const std::size_t indent = longest + 4, columns = static_cast<std::size_t>(std::max(width(), 0));
  for (const auto& [key, value] : rows) {
    std::string head = fmt::format("  {:<{}}  ", key, longest);
    for (const std::string& line : wrapped(value, columns > indent ? columns - indent : 1)) {
      print(head + line);
      head.assign(indent, ' ');
    }
  }
}

void Console::step(const StepMetrics& metrics) {
  const double now = options_.seconds();
  pace_.add(metrics, now);
  interval_seconds_ += metrics.step_seconds;
  interval_tokens_ += metrics.tokens_per_second * metrics.step_seconds;
  interval_mfu_ += metrics.mfu * metrics.step_seconds;

  const bool last = metrics.step == options_.total_steps;
  if (last) erase_live();
  if (first_ || last || metrics.step % options_.interval == 0) {
    print(interval_line(metrics));
    first_ = false;
    interval_seconds_ = interval_tokens_ = interval_mfu_ = 0;
  }
  if (terminal_ && options_.total_steps > 0 && !last) draw_live(metrics, now);
}

std::string Console::interval_line(const StepMetrics& metrics) {
  const double seconds = interval_seconds_ > 0 ? interval_seconds_ : 1;
  const StepLine line{
      .step = metrics.step,
      .total = options_.total_steps,
      .loss = metrics.loss,
      .grad_norm = metrics.grad_norm,
      .lr = metrics.lr,
      .tokens_per_second = interval_tokens_ / seconds,
      .mfu = metrics.mfu > 0 ? interval_mfu_ / seconds : 0,
      .memory_bytes = std::max(metrics.memory_peak_bytes, metrics.process_peak_bytes),
      .seconds_left = seconds_left(metrics.step)};
  // Keeps one form for all lines while the window keeps its width.
  const int columns = width();
  if (columns != std::exchange(form_width_, columns)) form_ = StepForm::kFull;
  form_ = std::max(form_, step_form(line, columns));
  return step_line(line, form_);
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
  // One write, so that output of other processes is not interleaved.
  put(live_ ? fmt::format("\r\x1b[K{}\n{}", line, live_line()) : fmt::format("{}\n", line));
}

// Unlike fmt::print, it does not throw: a full disk behind a redirected stderr must not end the
// run.
void Console::put(const std::string& text) {
  std::fputs(text.c_str(), options_.out);
  std::fflush(options_.out);
}

void Console::draw_live(const StepMetrics& metrics, double now) {
  constexpr double kRedrawSeconds = 0.1;
  if (live_ && now - live_drawn_at_ < kRedrawSeconds) return;
  Progress progress{metrics.step, options_.total_steps, {}};
  progress.parts.push_back(fmt::format("loss {:.4f}", pace_.loss()));
  if (const auto left = seconds_left(metrics.step)) {
    progress.parts.push_back(fmt::format("ETA {}", human_duration(*left)));
  }
  progress.parts.push_back(human_count(pace_.tokens_per_second()) + " tok/s");
  live_ = std::move(progress);
  put(live_line());
  live_drawn_at_ = now;
}

void Console::erase_live() {
  if (!live_) return;
  put("\r\x1b[K");
  live_.reset();
}

// Fits the current width. The last column stays free: some terminals wrap a full line.
std::string Console::live_line() const {
  return fmt::format("\r{}\x1b[K", progress_line(*live_, width() - 1));
}

int Console::width() const {
  return terminal_width(::fileno(options_.out));
}

std::optional<double> Console::seconds_left(std::int64_t step) const {
  return pace_.seconds_left(options_.total_steps - step);
}

}  // namespace trireme
