#include "trainer/tools/report/chart_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "model/base/json.h"
#include "trainer/config/metric_name.h"
#include "trainer/tools/report/comparison.h"
#include "trainer/tools/report/event.h"
#include "trainer/tools/report/summary.h"
#include "trainer/tools/report/thin_out.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// Seven digits exceed the resolution of a screen and keep the page small.
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
  std::string name;
  const char* color;  // variable of style.css, for a single run
  bool smooth;        // affected by the smoothing slider
  std::function<Series(const RunData&)> series;
  bool only_alone = false;  // drawn for a single run only
};

struct Chart {
  std::string title;
  const char* format;  // formatter of curves.js
  bool wide = false;
  bool log_y = false;
  bool from_zero = false;
  std::vector<Line> lines = {};
};

std::function<Series(const RunData&)> metric(const std::string& key) {
  return [key](const RunData& run) { return run.series(key); };
}

// Empty if the peak FLOP/s of the device is unknown.
std::function<Series(const RunData&)> share(const std::string& key) {
  return [key](const RunData& run) {
    const Series& series = run.series(key);
    const bool is_known = std::any_of(series.values.begin(), series.values.end(),
                                      [](double value) { return value > 0; });
    return is_known ? series : Series();
  };
}

std::function<Series(const RunData&)> validation(const char* key, const char* detail) {
  return [=](const RunData& run) { return validation_curve(run, key, detail); };
}

// Planned memory of each incarnation over its steps.
Series planned_memory(const RunData& run) {
  const Series& used = run.series("memory_peak_bytes");
  Series planned;
  if (used.empty()) return planned;
  for (const RunEvent& event : run.events) {
    const auto bytes = number_of(event, "memory_plan_bytes");
    if (!is_begin(event) || !bytes) continue;
    const std::int64_t from = std::max(step_of(event) + 1, used.steps.front());
    while (!planned.empty() && planned.steps.back() >= from) {
      planned.steps.pop_back();
      planned.values.pop_back();
    }
    if (from > used.steps.back()) continue;
    if (!planned.empty() && from - 1 > planned.steps.back()) {
      planned.steps.push_back(from - 1);
      planned.values.push_back(planned.values.back());
    }
    planned.steps.push_back(from);
    planned.values.push_back(*bytes);
  }
  if (!planned.empty() && planned.steps.back() < used.steps.back()) {
    planned.steps.push_back(used.steps.back());
    planned.values.push_back(planned.values.back());
  }
  return planned;
}

// Kind of mark of an event; null: none.
const char* kind_of_mark(const RunEvent& event) {
  if (is(event, "failure") || is(event, "replicas_differ") || is(event, "give_up")) {
    return "failure";
  }
  if (is(event, "resume")) return "restart";
  if (is(event, "skip") || is(event, "rollback")) return "spike";
  return is(event, "checkpoint") ? "checkpoint" : nullptr;
}

class ChartData {
 public:
  explicit ChartData(const std::vector<RunData>& runs) : runs_(runs), names_(run_names(runs)) {}

  Json build() {
    add({.title = "Loss",
         .format = "plain",
         .wide = true,
         .lines = {{"training", "blue", true, metric("loss")},
                   {"validation", "orange", false, validation("validation_loss", "loss")}}});
    add({.title = "Tokens per second",
         .format = "count",
         .from_zero = true,
         .lines = {{"", "blue", true, metric("tokens_per_second")}}});
    add({.title = "FLOPs utilization",
         .format = "percent",
         .from_zero = true,
         .lines = {{"MFU", "blue", true, share("mfu")}, {"HFU", "orange", true, share("hfu")}}});
    add({.title = "Gradient norm",
         .format = "plain",
         .lines = {{"", "blue", true, metric("grad_norm")}}});
    add({.title = "Learning rate",
         .format = "plain",
         .from_zero = true,
         .lines = {{"", "blue", false, metric("lr")}}});
    add({.title = "Peak memory, largest rank",
         .format = "bytes",
         .from_zero = true,
         .lines = {{"arenas", "blue", false, metric("memory_peak_bytes")},
                   {"planned", "green", false, planned_memory, true},
                   {"process", "orange", false, metric("process_peak_bytes")}}});
    add({.title = "Validation bits per byte",
         .format = "plain",
         .lines = {
             {"", "orange", false, validation("validation_bits_per_byte", "bits_per_byte")}}});
    add({.title = "Query-key pairs of the busiest context rank over the mean",
         .format = "plain",
         .lines = {{"", "orange", true, metric("context_pairs_max_over_mean")}}});
    add({.title = "Busiest expert over the mean, worst layer",
         .format = "plain",
         .lines = {{"", "orange", true, metric("expert_load_max_over_mean")}}});
    add({.title = "Entropy of the routers",
         .format = "plain",
         .lines = {{"", "blue", true, metric("router_entropy")}}});
    add_the_rest();
    Json out = {{"first_step", std::min(first_step_, last_step_)}, {"last_step", last_step_}};
    out["runs"] = Json::array();
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      out["runs"].push_back({{"name", names_[run]}, {"color", run_color(run)}});
    }
    out["marks"] = marks();
    out["curves"] = std::move(curves_);
    return out;
  }

 private:
  static std::string run_color(std::size_t run) { return fmt::format("run-{}", run % kRunColors); }

  void add(const Chart& chart) {
    constexpr std::size_t kPoints = 2000;
    constexpr std::size_t kFewest = 400;
    const std::size_t points = std::max(kPoints / runs_.size(), kFewest);
    Json lines = Json::array();
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      for (const Line& line : chart.lines) {
        if (line.only_alone && runs_.size() > 1) continue;
        const Series series = line.series(runs_[run]);
        if (series.empty()) continue;
        first_step_ = std::min(first_step_, series.steps.front());
        last_step_ = std::max(last_step_, series.steps.back());
        const ThinCurve thin = thin_out(series, points);
        const bool is_first = &line == chart.lines.data();
        Json one{{"run", run}, {"name", line.name}, {"color", line.color}, {"dash", false}};
        if (runs_.size() > 1) {
          one["name"] = fmt::format("{}{}{}", names_[run], line.name.empty() ? "" : " ", line.name);
          one["color"] = run_color(run);
          one["dash"] = !is_first;
        }
        one["smooth"] = line.smooth;
        one["x"] = thin.steps;
        one["y"] = rounded(thin.values);
        one["mean"] = rounded(thin.means);
        lines.push_back(std::move(one));
      }
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

  // Metrics without a chart of their own (StepMetrics::more).
  void add_the_rest() {
    std::set<std::string, std::less<>> drawn{"tokens",
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
                                             "step_seconds",
                                             "context_pairs_max_over_mean",
                                             "expert_load_max_over_mean",
                                             "router_entropy"};
    constexpr std::size_t kMost = 24;
    std::size_t added = 0;
    std::map<std::string, Chart> groups;
    for (const RunData& run : runs_) {
      for (const auto& [key, series] : run.metrics) {
        if (!drawn.insert(key).second) continue;
        if (const std::size_t slash = slash_of_metric(key); slash != std::string::npos) {
          add_to(groups[key.substr(0, slash)], key, slash);
          continue;
        }
        if (added++ >= kMost) continue;
        add({.title = key, .format = "plain", .lines = {{"", "green", true, metric(key)}}});
      }
    }
    for (const auto& [title, chart] : groups) {
      if (added++ < kMost) add(chart);
    }
  }

  // Groups by prefix: "validation_loss/web" is a line in chart "validation_loss".
  static void add_to(Chart& chart, const std::string& key, std::size_t slash) {
    constexpr std::array<const char*, 3> kColors{"blue", "orange", "green"};
    constexpr std::size_t kMostLines = 12;
    if (chart.lines.size() == kMostLines) return;
    chart.title = key.substr(0, slash);
    chart.format = "plain";
    chart.lines.push_back(
        {key.substr(slash + 1), kColors[chart.lines.size() % kColors.size()], false, metric(key)});
  }

  Json marks() const {
    constexpr std::size_t kMost = 400;
    Json out = Json::array();
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const auto& events = runs_[run].events;
      std::size_t count = 0;
      for (auto event = events.rbegin(); event != events.rend() && count < kMost; ++event) {
        const char* kind = kind_of_mark(*event);
        const auto step = json_at<std::int64_t>(*event, "step");
        if (kind == nullptr || !step) continue;
        ++count;
        Json mark{{"step", *step}, {"text", text_of(*event, "event")}, {"kind", kind}};
        mark["run"] = run;
        out.push_back(std::move(mark));
      }
    }
    return out;
  }

  const std::vector<RunData>& runs_;
  const std::vector<std::string> names_;
  Json curves_ = Json::array();
  std::int64_t first_step_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_step_ = 0;
};

}  // namespace

nlohmann::ordered_json chart_data(const std::vector<RunData>& runs) {
  return ChartData(runs).build();
}

}  // namespace trireme
