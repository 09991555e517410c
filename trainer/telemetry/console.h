#pragma once
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/telemetry/progress_line.h"
#include "trainer/telemetry/step_line.h"
#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// Console output of a run: a banner, one line per interval, and a live progress line below them if
// the output is a terminal. One Console per process, on the rank that knows the loss; everything
// goes to one stream to keep its order. A file or a pipe (as under mpirun and trireme launch) gets
// the same lines without the live one. Not thread-safe.
class Console {
 public:
  struct Options {
    std::int64_t total_steps = 0;     // 0: unknown, no ETA and no live line
    std::int64_t interval = 10;       // [metrics] log_freq
    std::FILE* out = stderr;          // must outlive the Console
    std::optional<bool> terminal;     // unset: can_rewrite_lines()
    std::function<double()> seconds;  // unset: the steady clock; for tests
  };
  using Row = std::pair<std::string, std::string>;

  explicit Console(Options options);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();  // erases the live line

  // Prints the title, then one aligned "key  value" row each, wrapped to the width of the terminal.
  void banner(std::string_view title, const std::vector<Row>& rows);
  // Call it after every step. Prints the first step of this process, every interval-th and the
  // last; throughput and MFU are averaged since the previous line.
  void step(const StepMetrics& metrics);
  void validation(const StepMetrics& metrics, double seconds);
  // Prints any other line ("checkpoint step-00000100 committed, 1.2 GiB in 3.1 s").
  void note(std::string_view line);

 private:
  void print(std::string_view line);
  void put(const std::string& text);
  void draw_live(const StepMetrics& metrics, double now);
  void erase_live();
  std::string live_line() const;
  std::string interval_line(const StepMetrics& metrics);
  int width() const;
  // Estimated seconds left after a step; nothing after the last step.
  std::optional<double> seconds_left(std::int64_t step) const;

  Options options_;
  bool terminal_;
  std::optional<Progress> live_;  // content of the live line, if there is one
  double live_drawn_at_ = 0;
  bool first_ = true;
  Pace pace_;
  // longest form that has fitted so far, at a width of form_width_ columns
  StepForm form_ = StepForm::kFull;
  int form_width_ = 0;  // columns of the window for form_
  // Sums since the last printed line.
  double interval_seconds_ = 0;
  double interval_tokens_ = 0;
  double interval_mfu_ = 0;
};

}  // namespace trireme
