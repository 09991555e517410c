#include "trainer/report/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "trainer/report/assets.h"
#include "trainer/report/chart_data.h"
#include "trainer/report/escape.h"
#include "trainer/report/fill.h"
#include "trainer/report/sections.h"
#include "trainer/report/summary.h"

namespace trireme {
namespace {

std::string model_name(const RunData& run) {
  for (auto event = run.events.rbegin(); event != run.events.rend(); ++event) {
    const auto model = event->find("model");
    if (model != event->end() && model->is_string()) return model->get<std::string>();
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

}  // namespace

std::string report_page(const RunData& run) {
  const nlohmann::ordered_json data = chart_data(run);
  const std::string model = model_name(run);
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  // A short run is not smoothed: its few points are better seen as they are.
  constexpr std::size_t kFewSteps = 100;
  const bool is_short = run.series("loss").steps.size() < kFewSteps;
  return fill(
      kPageHtml,
      {{"title", html_escape(fmt::format("{}: training report", model))},
       {"style", std::string(kPageStyle)},
       {"script", std::string(kPageScript)},
       {"data", json_for_script(data)},
       {"folder", html_escape(folder_text(run))},
       {"heading", html_escape(model)},
       {"state", state_html(run)},
       {"description", run.description.empty()
                           ? std::string()
                           : fmt::format("<p>{}</p>", html_escape(run.description))},
       {"complaints", complaints_html(run)},
       {"tiles", tiles_html(run)},
       {"smoothing", is_short ? "0" : "50"},
       {"marks-note",
        data.at("marks").empty() ? "" : "Dotted lines: the run was resumed (red: it failed)."},
       {"samples", samples_html(run)},
       {"events", events_html(run)},
       {"checkpoints", checkpoints_html(run)},
       {"config", config_html(run)},
       {"written", fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(now))}});
}

}  // namespace trireme
