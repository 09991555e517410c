#include "trainer/tools/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/base/human.h"
#include "trainer/config/metric_name.h"
#include "trainer/tools/report/comparison.h"
#include "trainer/tools/report/config_values.h"
#include "trainer/tools/report/failures.h"
#include "trainer/tools/report/goodput.h"
#include "trainer/tools/report/sparkline.h"
#include "trainer/tools/report/summary.h"

namespace trireme {
namespace {

// Replaces control characters, which the terminal would interpret.
std::string plain(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = ' ';
  }
  return text;
}

std::string heading(const std::string& text) {
  return fmt::format("\n{}\n{}\n", text, std::string(text.size(), '-'));
}

std::string numbers(const RunData& run) {
  std::string text = fmt::format("{:>14}  {}\n", run_state(run).text, "state");
  for (const Tile& tile : summary_tiles(run)) {
    text += fmt::format("{:>14}  {}\n", plain(tile.value), plain(tile.label));
  }
  return text;
}

std::string number_text(const std::string& key, double value) {
  if (!std::isfinite(value)) return "not finite";
  if (key == "tokens_per_second") return human_count(value);
  if (key.ends_with("_bytes")) return human_bytes(static_cast<std::uint64_t>(value));
  if (key == "mfu") return fmt::format("{:.1f}%", 100 * value);
  return fmt::format("{:.5g}", value);
}

std::string curves(const RunData& run) {
  constexpr std::size_t kColumns = 60;
  const Series& loss = run.series("loss");
  if (loss.empty()) return "";
  const std::int64_t first = loss.steps.front();
  const std::int64_t last = loss.steps.back();
  std::string text;
  constexpr std::size_t kMostCurves = 24;
  std::vector<std::string> keys{"loss", "validation_loss",  "grad_norm", "lr", "tokens_per_second",
                                "mfu",  "memory_peak_bytes"};
  for (const auto& [key, series] : run.metrics) {
    const bool in_group = slash_of_metric(key) != std::string::npos;
    if (in_group && keys.size() < kMostCurves) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    const Series& series = run.series(key);
    if (series.empty()) continue;
    text += fmt::format("{:<18} |{}| {} -> {}\n", key, sparkline(series, first, last, kColumns),
                        number_text(key, series.values.front()),
                        number_text(key, series.values.back()));
  }
  return text + fmt::format("{:<18} {} to {}\n", "steps", grouped(first), grouped(last));
}

std::string times(const RunData& run) {
  const std::optional<Goodput> found = goodput(run);
  if (!found) return "";
  const auto line = [&](const std::string& name, double seconds) {
    return fmt::format("{:>10} {:6.2f} %  {}\n", human_duration(seconds),
                       100 * seconds / found->wall, name);
  };
  std::string text = line("goodput: useful steps", found->useful);
  for (const Goodput::Share& share : found->lost) text += line(share.name, share.seconds);
  return text;
}

std::string failures(const RunData& run) {
  constexpr std::size_t kMost = 20;
  std::string text;
  std::size_t shown = 0;
  for (auto event = run.events.rbegin(); event != run.events.rend() && shown < kMost; ++event) {
    const auto found = failure_event_of(*event);
    if (!found) continue;
    ++shown;
    text += fmt::format("{}  step {:>8}  {}: {}\n", short_time(plain(text_of(*event, "time"))),
                        grouped(step_of(*event)), found->what, plain(found->text));
  }
  return text;
}

std::string newest_events(const RunData& run) {
  constexpr std::size_t kMost = 15;
  constexpr std::size_t kLongest = 100;
  std::string text;
  const std::size_t first = run.events.size() - std::min(run.events.size(), kMost);
  for (std::size_t i = first; i < run.events.size(); ++i) {
    const RunEvent& event = run.events[i];
    std::string details;
    for (const auto& [label, value] : details_of(event)) {
      details += fmt::format("{}{} {}", details.empty() ? "" : "; ", label, value);
    }
    text += fmt::format("{}  step {:>8}  {}: {}\n", short_time(plain(text_of(event, "time"))),
                        grouped(step_of(event)), plain(text_of(event, "event")),
                        plain(shortened(details, kLongest)));
  }
  return text;
}

std::string chosen_config(const RunData& run) {
  std::string text;
  for (const ConfigValue& one : config_values(run.config_text)) {
    if (!one.is_chosen()) continue;
    text += plain(fmt::format("{} = {}  ({})", one.key, one.value, one.origin)) + "\n";
  }
  return text;
}

void add(std::string& to, const char* title, const std::string& text) {
  if (!text.empty()) to += heading(title) + text;
}

std::string one_run(const RunData& run, const std::string& name) {
  std::string text = fmt::format("=== {}\n", plain(name));
  if (!run.description.empty()) text += plain(run.description) + "\n";
  for (const std::string& complaint : run.complaints) text += "note: " + plain(complaint) + "\n";
  text += numbers(run);
  add(text, "Curves", curves(run));
  add(text, "Wall time", times(run));
  add(text, "Failures and restarts, newest first", failures(run));
  if (run.audit) {
    add(text, "Audit", run.audit->text + (run.audit->text.ends_with('\n') ? "" : "\n"));
  }
  add(text, "Newest events", newest_events(run));
  add(text, "Config values set by the user", chosen_config(run));
  return text;
}

}  // namespace

std::string report_text(const std::vector<RunData>& runs) {
  const std::vector<std::string> names = run_names(runs);
  std::string text;
  std::vector<std::string_view> configs;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    text += one_run(runs[run], names[run]) + "\n";
    configs.emplace_back(runs[run].config_text);
  }
  if (runs.size() < 2) return text;
  text += "=== Config differences\n";
  for (const ConfigDifference& one : config_differences(configs)) {
    text += one.key + "\n";
    for (std::size_t run = 0; run < runs.size(); ++run) {
      text += plain(fmt::format("    {:<20} {}", names[run],
                                one.values[run].empty() ? "(not set)" : one.values[run])) +
              "\n";
    }
  }
  return text;
}

}  // namespace trireme
