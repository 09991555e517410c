#include "trainer/tools/report/run_data.h"

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "checkpoint/store/lease.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/json.h"
#include "trainer/telemetry/record_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool is_there(const fs::path& path) {
  std::error_code why;
  return fs::exists(path, why);
}

// Calls `use` with each complete JSON object line; reports the others as complaints.
void read_json_lines(RunData& run, const char* name, const std::function<bool(const Json&)>& use) {
  const fs::path path = run.folder / name;
  if (!is_there(path)) {
    if (!run.is_running) run.complaints.push_back(say(name, " is missing."));
    return;
  }
  try {
    const std::string text = record_text(path);
    std::string_view rest = text;
    std::uint64_t line_number = 0;
    std::uint64_t damaged = 0;
    std::uint64_t first_damaged = 0;
    while (!rest.empty()) {
      ++line_number;
      const std::size_t newline = rest.find('\n');
      const std::string_view line = rest.substr(0, newline);
      rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
      const Json parsed = Json::parse(line, nullptr, false);
      if (parsed.is_object() && use(parsed)) continue;
      if (newline == std::string_view::npos) {
        if (run.is_running) break;  // it is still being written
        run.complaints.push_back(say(name, " ends in the middle of a line (line ", line_number,
                                     "); that line is ignored."));
      } else if (damaged++ == 0) {
        first_damaged = line_number;
      }
    }
    if (damaged > 0) {
      run.complaints.push_back(say(name, ": ", damaged, " damaged line(s), the first is line ",
                                   first_damaged, "; they are ignored."));
    }
  } catch (const Error& error) {
    run.complaints.push_back(error.what());
  }
}

void read_metrics(RunData& run) {
  std::int64_t previous = std::numeric_limits<std::int64_t>::min();
  std::uint64_t repeated = 0;
  read_json_lines(run, "metrics.jsonl", [&](const Json& line) {
    const auto found = json_at<std::int64_t>(line, "step");
    if (!found) return false;
    const std::int64_t step = *found;
    if (step <= previous) {  // a later line of a step replaces the earlier
      ++repeated;
      for (auto& [key, series] : run.metrics) {
        const auto from = std::lower_bound(series.steps.begin(), series.steps.end(), step);
        series.values.resize(static_cast<std::size_t>(from - series.steps.begin()));
        series.steps.erase(from, series.steps.end());
      }
    }
    previous = step;
    if (const auto load = line.find("expert_load"); load != line.end()) {
      run.expert_load = {.step = step, .load = *load};
    }
    for (const auto& [key, value] : line.items()) {
      if (key == "step" || !(value.is_number() || value.is_null())) continue;
      Series& series = run.metrics[key];
      series.steps.push_back(step);
      series.values.push_back(json_as<double>(value).value_or(kNan));
    }
    return true;
  });
  if (repeated > 0) {
    run.complaints.push_back(
        say("metrics.jsonl repeats steps ", repeated, " time(s); the later lines are shown."));
  }
}

void read_events(RunData& run) {
  read_json_lines(run, "events.jsonl", [&](const Json& line) {
    if (!json_at<std::string>(line, "event")) return false;
    run.events.push_back(line);
    return true;
  });
}

void read_config(RunData& run) {
  constexpr std::uint64_t kLimit = 4u << 20;
  const fs::path path = run.folder / "config.toml";
  if (!is_there(path)) {
    run.complaints.emplace_back("config.toml is missing.");
    return;
  }
  try {
    run.config_text = read_text(path, kLimit);
    const toml::table table = toml::parse(run.config_text);
    run.model = table["model"]["flavor"].value_or(std::string());
    if (run.model.empty()) run.model = table["model"]["model_type"].value_or(std::string());
    run.description = table["job"]["description"].value_or(std::string());
  } catch (const toml::parse_error& error) {
    run.complaints.push_back(say("config.toml, line ", error.source().begin.line, ": ",
                                 std::string(error.description()), "."));
  } catch (const Error& error) {
    run.complaints.push_back(error.what());
  }
}

std::uint64_t bytes_inside(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code why;
  for (fs::directory_iterator at(folder, why), end; !why && at != end; at.increment(why)) {
    std::error_code ignored;
    const std::uint64_t size = at->is_regular_file(ignored) ? at->file_size(ignored) : 0;
    if (!ignored) bytes += size;
  }
  return bytes;
}

// "step-00000100" -> 100; nullopt for other names, such as partial checkpoints.
bool step_of_name(const std::string& name, std::int64_t& step) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return false;
  const char* end = name.data() + name.size();
  const auto [rest, why] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return why == std::errc() && rest == end;
}

void read_checkpoints(RunData& run) {
  const fs::path folder = run.folder / "checkpoints";
  std::string latest;
  try {
    constexpr std::uint64_t kLimit = 4096;
    if (is_there(folder / "latest")) latest = read_text(folder / "latest", kLimit);
  } catch (const Error& error) {
    run.complaints.push_back(error.what());
  }
  std::error_code why;
  for (fs::directory_iterator at(folder, why), end; !why && at != end; at.increment(why)) {
    CheckpointEntry found;
    found.name = at->path().filename().string();
    if (!step_of_name(found.name, found.step)) continue;
    if (!is_there(at->path() / "manifest.json")) {
      run.complaints.push_back(say("checkpoints/", found.name, " has no manifest.json."));
      continue;
    }
    found.bytes = bytes_inside(at->path());
    found.is_latest = latest.find(found.name) != std::string::npos;
    run.checkpoints.push_back(std::move(found));
  }
  std::sort(run.checkpoints.begin(), run.checkpoints.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
}

}  // namespace

double largest(const Series& series) {
  double most = 0;
  for (const double value : series.values) {
    if (std::isfinite(value)) most = std::max(most, value);
  }
  return most;
}

const Series& RunData::series(const std::string& key) const {
  static const Series kNone;
  const auto found = metrics.find(key);
  return found == metrics.end() ? kNone : found->second;
}

RunData read_run(const fs::path& folder) {
  std::error_code why;
  if (!fs::is_directory(folder, why)) {
    throw ConfigError(say("no such run folder: ", folder.string(),
                          why && why != std::errc::no_such_file_or_directory
                              ? say(" (", why.message(), ")")
                              : std::string(),
                          "; give the dump_folder of a run"));
  }
  if (!is_there(folder / "metrics.jsonl") && !is_there(folder / "events.jsonl")) {
    throw CheckpointError(say(folder.string(),
                              " is not a run folder: it has neither metrics.jsonl nor "
                              "events.jsonl; give the dump_folder of a run"));
  }
  RunData run;
  run.folder = folder;
  run.is_running = !checkpoint::lease_holder(folder).empty();
  read_metrics(run);
  read_events(run);
  read_config(run);
  read_checkpoints(run);
  return run;
}

}  // namespace trireme
