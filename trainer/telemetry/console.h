#pragma once
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/telemetry/pace.h"
#include "trainer/telemetry/progress_line.h"
#include "trainer/telemetry/step_line.h"
#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// What a person sees of a run: a banner, one line per interval, and below them a live line
// when the output is a terminal. One Console per process, on the rank that knows the loss;
// everything goes to one stream, so that the order is right. A file or a pipe (as under mpirun
// and trireme launch) gets the same lines without the live one.
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
  ~Console();  // takes the live line away

  // "title", then one aligned "key  value" per row, in lines that fit.
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
  void draw_live(const StepMetrics& metrics, double now);
  void erase_live();
  std::string live_line() const;
  std::string interval_line(const StepMetrics& metrics);
  int width() const;
  // A step's time left, while there are steps to come.
  std::optional<double> seconds_left(std::int64_t step) const;

  Options options_;
  bool terminal_;
  std::optional<Progress> live_;  // of the live line, where there is one
  double live_drawn_at_ = 0;
  bool first_ = true;
  Pace pace_;
  StepForm form_ = StepForm::kFull;  // the longest that has fitted so far,
  int form_width_ = 0;               // in a line of so many columns
  // Sums since the last printed line.
  double interval_seconds_ = 0;
  double interval_tokens_ = 0;
  double interval_mfu_ = 0;
};

}  // namespace trireme
