#include "trainer/report/chart_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>

#include "trainer/report/summary.h"
#include "trainer/report/thin_out.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// Seven digits are more than a screen shows, and keep the page small.
Json rounded(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double value : values) {
    if (std::isfinite(value)) {
      out.push_back(std::strtod(fmt::format("{:.7g}", value).c_str(), nullptr));
    } else {
      out.push_back(nullptr);
    }
  }
  return out;
}

struct Line {
  const char* name;
  const char* color;  // a variable of style.css
  bool smooth;        // the slider applies
  Series series;
};

struct Chart {
  const char* title;
  const char* format;  // a formatter of curves.js
  bool wide = false;
  bool log_y = false;
  bool from_zero = false;
  std::vector<Line> lines;
};

class ChartData {
 public:
  explicit ChartData(const RunData& run) : run_(run) {}

  Json build() {
    const auto metric = [&](const char* key) { return run_.series(key); };
    add({.title = "Loss",
         .format = "plain",
         .wide = true,
         .lines = {
             {"training", "blue", true, metric("loss")},
             {"validation", "orange", false, validation_curve(run_, "validation_loss", "loss")}}});
    add({.title = "Validation bits per byte",
         .format = "plain",
         .lines = {{"", "orange", false,
                    validation_curve(run_, "validation_bits_per_byte", "bits_per_byte")}}});
    add({.title = "Learning rate",
         .format = "plain",
         .from_zero = true,
         .lines = {{"", "blue", false, metric("lr")}}});
    add({.title = "Gradient norm",
         .format = "plain",
         .lines = {{"", "blue", true, metric("grad_norm")}}});
    add({.title = "Tokens per second",
         .format = "count",
         .from_zero = true,
         .lines = {{"", "blue", true, metric("tokens_per_second")}}});
    if (is_known(metric("mfu"))) {
      add({.title = "FLOPs utilization",
           .format = "percent",
           .from_zero = true,
           .lines = {{"MFU", "blue", true, metric("mfu")},
                     {"HFU", "orange", true, metric("hfu")}}});
    }
    add({.title = "Peak memory, first rank",
         .format = "bytes",
         .from_zero = true,
         .lines = {{"arenas", "blue", false, metric("memory_peak_bytes")},
                   {"process", "orange", false, metric("process_peak_bytes")}}});
    add_the_rest();
    Json out = {{"first_step", std::min(first_step_, last_step_)}, {"last_step", last_step_}};
    out["marks"] = marks();
    out["curves"] = std::move(curves_);
    return out;
  }

 private:
  static bool is_known(const Series& series) {
    return std::any_of(series.values.begin(), series.values.end(),
                       [](double value) { return value > 0; });
  }

  void add(const Chart& chart) {
    Json lines = Json::array();
    for (const Line& line : chart.lines) {
      if (line.series.empty()) continue;
      first_step_ = std::min(first_step_, line.series.steps.front());
      last_step_ = std::max(last_step_, line.series.steps.back());
      const ThinCurve thin = thin_out(line.series);
      Json one = {{"name", line.name}, {"color", line.color}, {"smooth", line.smooth}};
      one["x"] = thin.steps;
      one["y"] = rounded(thin.values);
      one["mean"] = rounded(thin.means);
      lines.push_back(std::move(one));
    }
    if (lines.empty()) return;
    Json out = {{"title", chart.title},
                {"format", chart.format},
                {"wide", chart.wide},
                {"log_y", chart.log_y},
                {"from_zero", chart.from_zero}};
    out["series"] = std::move(lines);
    curves_.push_back(std::move(out));
  }

  // Metrics under other keys (StepMetrics::more).
  void add_the_rest() {
    static const std::set<std::string, std::less<>> kDrawn{"tokens",
                                                           "loss",
                                                           "validation_loss",
                                                           "validation_bits_per_byte",
                                                           "lr",
                                                           "grad_norm",
                                                           "tokens_per_second",
                                                           "mfu",
                                                           "hfu",
                                                           "memory_peak_bytes",
                                                           "process_peak_bytes",
                                                           "step_seconds"};
    constexpr std::size_t kMost = 24;
    std::size_t added = 0;
    for (const auto& [key, series] : run_.metrics) {
      if (kDrawn.contains(key) || added++ >= kMost) continue;
      add({.title = key.c_str(), .format = "plain", .lines = {{"", "green", true, series}}});
    }
  }

  // Where the run was resumed or failed.
  Json marks() const {
    constexpr std::size_t kMost = 200;
    Json out = Json::array();
    for (auto event = run_.events.rbegin(); event != run_.events.rend() && out.size() < kMost;
         ++event) {
      const std::string name = event->at("event").get<std::string>();
      const bool bad = name == "failure";
      const auto step = event->find("step");
      if ((!bad && name != "resume") || step == event->end() || !step->is_number_integer())
        continue;
      out.push_back({{"step", *step}, {"text", name}, {"bad", bad}});
    }
    return out;
  }

  const RunData& run_;
  Json curves_ = Json::array();
  std::int64_t first_step_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_step_ = 0;
};

}  // namespace

nlohmann::ordered_json chart_data(const RunData& run) {
  return ChartData(run).build();
}

}  // namespace trireme
