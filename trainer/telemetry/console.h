#pragma once
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// What a person sees of a run: a banner, one line per interval, and between the lines a
// progress bar when the output is a terminal. One Console per process, on the rank that
// knows the loss; everything goes to one stream, so that the order is right.
class Console {
 public:
  struct Options {
    std::int64_t total_steps = 0;     // 0: unknown, no ETA and no bar
    std::int64_t interval = 10;       // [metrics] log_freq
    std::FILE* out = stderr;          // must outlive the Console
    std::optional<bool> terminal;     // unset: ask isatty
    std::function<double()> seconds;  // unset: the steady clock; for tests
  };
  using Row = std::pair<std::string, std::string>;

  explicit Console(Options options);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();  // takes the bar away

  // "title", then one aligned "key  value" line per row.
  void banner(std::string_view title, const std::vector<Row>& rows);
  // To be called after every step. Prints the first step of this process, every
  // interval-th and the last; throughput and MFU are means since the line before.
  void step(const StepMetrics& metrics);
  void validation(const StepMetrics& metrics, double seconds);
  // Any other line ("checkpoint step-00000100 committed, 1.2 GiB in 3.1 s").
  void note(std::string_view line);

 private:
  void print(std::string_view line);
  void put(const std::string& text);
  void draw_bar(const StepMetrics& metrics, double now);
  void erase_bar();
  std::string step_line(const StepMetrics& metrics) const;
  std::optional<double> seconds_left(std::int64_t step) const;

  Options options_;
  bool terminal_;
  bool bar_shown_ = false;
  double bar_drawn_at_ = 0;
  bool first_ = true;
  double last_step_seconds_ = 0;
  // Sums since the last printed line.
  double interval_seconds_ = 0;
  double interval_tokens_ = 0;
  double interval_mfu_ = 0;
  std::deque<std::pair<std::int64_t, double>> recent_;  // (step, when it ended)
};

}  // namespace trireme
