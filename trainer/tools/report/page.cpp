#include "model/base/json.h"
#include "trainer/tools/report/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "model/base/error.h"
#include "trainer/tools/report/assets.h"
#include "trainer/tools/report/chart_data.h"
#include "trainer/tools/report/comparison.h"
#include "trainer/tools/report/failures.h"
#include "trainer/tools/report/html.h"
#include "trainer/tools/report/sections.h"
#include "trainer/tools/report/summary.h"
#include "trainer/tools/report/timeline.h"

namespace trireme {
namespace {

std::string model_name(const RunData& run) {
  for (auto event = run.events.rbegin(); event != run.events.rend(); ++event) {
    if (const auto model = json_at<std::string>(*event, "model")) return *model;
  }
  return run.model.empty() ? "A training run" : run.model;
}

std::string state_html(const RunData& run) {
  const RunState state = run_state(run);
  const char* kind = state.kind == RunState::Kind::kGood  ? "good"
                     : state.kind == RunState::Kind::kBad ? "bad"
                                                          : "open";
  return fmt::format("<span class=\"state {}\">{}</span>", kind, html_escape(state.text));
}

std::string folder_text(const RunData& run) {
  std::error_code why;
  const auto absolute = std::filesystem::weakly_canonical(run.folder, why);
  return (why ? run.folder : absolute).string();
}

// Sections of a run below the curves; appends its timeline data to `timelines`.
std::string run_sections(const RunData& run, nlohmann::ordered_json& timelines) {
  std::string html = samples_html(run) + experts_html(run) + failures_html(run) + audit_html(run) +
                     memory_html(run);
  if (const auto traced = read_traces(run.folder)) {
    html += timeline_html(*traced, timelines.size());
    timelines.push_back(timeline_data(*traced));
  }
  return html + events_html(run) + checkpoints_html(run) + config_html(run);
}

std::string header_html(const std::vector<RunData>& runs) {
  if (runs.size() > 1) return fmt::format("<h1>{} training runs</h1>", runs.size());
  const RunData& run = runs.front();
  std::string html =
      fmt::format("<p class=\"folder\">{}</p>\n<h1>{} {}</h1>", html_escape(folder_text(run)),
                  html_escape(model_name(run)), state_html(run));
  if (!run.description.empty()) html += fmt::format("\n<p>{}</p>", html_escape(run.description));
  return html;
}

std::string overview_html(const std::vector<RunData>& runs) {
  std::string html;
  for (const RunData& run : runs) html += complaints_html(run);
  if (runs.size() > 1) return html + comparison_html(runs);
  return html + fmt::format("<section class=\"tiles\">\n{}</section>", tiles_html(runs.front()));
}

std::string run_details_html(const std::vector<RunData>& runs, nlohmann::ordered_json& timelines) {
  if (runs.size() == 1) return run_sections(runs.front(), timelines);
  const std::vector<std::string> names = run_names(runs);
  std::string html;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    html += fmt::format(
        "<details class=\"run\"><summary><i class=\"run-{}\"></i>{} {}<span class=\"folder\">{}"
        "</span></summary>\n{}</details>\n",
        run % kRunColors, html_escape(names[run]), state_html(runs[run]),
        html_escape(folder_text(runs[run])), run_sections(runs[run], timelines));
  }
  return html;
}

}  // namespace

std::string report_page(const std::vector<RunData>& runs) {
  require(!runs.empty(), "a report needs at least one run");
  nlohmann::ordered_json data = chart_data(runs);
  nlohmann::ordered_json timelines = nlohmann::ordered_json::array();
  const std::string details = run_details_html(runs, timelines);
  const bool has_marks = !data.at("marks").empty();
  data["timelines"] = std::move(timelines);
  const std::string title = runs.size() == 1 ? model_name(runs.front()) : "Several runs";
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  // Short runs are not smoothed.
  constexpr std::size_t kFewSteps = 100;
  const bool is_short = std::all_of(runs.begin(), runs.end(), [](const RunData& run) {
    return run.series("loss").steps.size() < kFewSteps;
  });
  return fill(kPageHtml, {{"title", html_escape(fmt::format("{}: training report", title))},
                          {"style", std::string(kPageStyle)},
                          {"script", std::string(kPageScript)},
                          {"timeline-script", std::string(kTimelineScript)},
                          {"data", json_for_script(data)},
                          {"header", header_html(runs)},
                          {"overview", overview_html(runs)},
                          {"smoothing", is_short ? "0" : "50"},
                          {"marks", has_marks ? "" : "hidden"},
                          {"details", details},
                          {"written", fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(now))}});
}

}  // namespace trireme
