#include "trainer/tools/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "model/base/human.h"
#include "model/base/json.h"
#include "trainer/tools/report/config_values.h"
#include "trainer/tools/report/event.h"
#include "trainer/tools/report/html.h"
#include "trainer/tools/report/summary.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string event_details_html(const Json& event) {
  std::string out;
  for (const auto& [label, value] : details_of(event)) {
    if (!out.empty()) out += " &nbsp; ";
    out += fmt::format("<em>{}</em> {}", html_escape(label), html_escape(value));
  }
  return out;
}

const char* row_class(const Json& event) {
  static const std::set<std::string, std::less<>> kBad{"failure", "checkpoint_rejected", "warning",
                                                       "replicas_differ", "give_up"};
  const std::string name = text_of(event, "event");
  if (kBad.contains(name)) return " class=\"bad\"";
  return name == "checkpoint" ? " class=\"good\"" : "";
}

std::string event_row(const Json& event) {
  const auto step = json_at<std::int64_t>(event, "step");
  return fmt::format(
      "<tr{}><td class=\"time\">{}</td><td class=\"number\">{}</td><td class=\"event\">{}</td>"
      "<td class=\"details\">{}</td></tr>\n",
      row_class(event), html_escape(short_time(text_of(event, "time"))), step ? grouped(*step) : "",
      html_escape(text_of(event, "event")), event_details_html(event));
}

// Values set by the user are bold.
std::string config_line(std::string_view line) {
  const std::size_t comment = comment_start(line);
  std::string code = html_escape(line.substr(0, comment));
  if (line.starts_with('[')) code = fmt::format("<span class=\"section\">{}</span>", code);
  if (comment == line.size()) return code;
  const std::vector<ConfigValue> value = config_values(line);
  if (!value.empty() && value.front().is_chosen()) code = fmt::format("<b>{}</b>", code);
  return fmt::format("{}<span class=\"comment\">{}</span>", code,
                     html_escape(line.substr(comment)));
}

}  // namespace

std::string complaints_html(const RunData& run) {
  if (run.complaints.empty()) return "";
  std::string items;
  for (const std::string& complaint : run.complaints) {
    items += fmt::format("<li>{}</li>\n", html_escape(complaint));
  }
  return fmt::format(
      "<div class=\"complaints\" role=\"note\"><strong>Parts of the run are missing or "
      "damaged.</strong>\n"
      "<ul>\n{}</ul></div>",
      items);
}

std::string tiles_html(const RunData& run) {
  std::string out;
  for (const Tile& tile : summary_tiles(run)) {
    out += fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n",
                       html_escape(tile.value), html_escape(tile.label));
  }
  return out;
}

std::string samples_html(const RunData& run) {
  constexpr std::size_t kShown = 8;
  constexpr std::size_t kLongest = 6000;
  std::string rows;
  std::size_t shown = 0;
  for (auto event = run.events.rbegin(); event != run.events.rend() && shown < kShown; ++event) {
    if (text_of(*event, "event") != "sample") continue;
    ++shown;
    const auto step = json_at<std::int64_t>(*event, "step");
    rows += fmt::format(
        "<div class=\"card\"><div class=\"sample-step\">{}</div><pre class=\"sample\">"
        "<span class=\"prompt\">{}</span>{}</pre></div>\n",
        step ? fmt::format("after step {}", grouped(*step)) : "",
        html_escape(shortened(text_of(*event, "prompt"), kLongest)),
        html_escape(shortened(text_of(*event, "text"), kLongest)));
  }
  if (rows.empty()) return "";
  return fmt::format("<section><h2>Samples</h2>\n{}</section>", rows);
}

std::string audit_html(const RunData& run) {
  if (!run.audit) return "";
  const bool is_clean = run.audit->is_clean;
  const char* found = !is_clean ? "not clean" : run.audit->is_running ? "clean so far" : "clean";
  return fmt::format(
      "<section><h2>Audit: no sample skipped or repeated? <span class=\"state {}\">{}</span></h2>"
      "\n<div class=\"card\"><pre>{}</pre></div></section>",
      is_clean ? "good" : "bad", found, html_escape(run.audit->text));
}

std::string events_html(const RunData& run) {
  if (run.events.empty()) return "";
  // Newest first; long runs also show their beginning.
  constexpr std::size_t kNewest = 400;
  constexpr std::size_t kOldest = 50;
  const std::size_t count = run.events.size();
  std::string rows;
  for (std::size_t i = count; i-- > 0;) {
    const bool is_cut = count > kNewest + kOldest;
    if (!is_cut || i >= count - kNewest || i < kOldest) rows += event_row(run.events[i]);
    if (is_cut && i == count - kNewest) {
      rows += fmt::format("<tr><td colspan=\"4\">{} more events are in events.jsonl</td></tr>\n",
                          grouped(static_cast<std::int64_t>(count - kNewest - kOldest)));
    }
  }
  return fmt::format(
      "<section><h2>Events</h2>\n<div class=\"card\"><table class=\"events\"><thead><tr><th>time "
      "(UTC)</th>"
      "<th class=\"number\">step</th><th>event</th><th>details</th></tr></thead><tbody>\n{}"
      "</tbody></table></div></section>",
      rows);
}

std::string checkpoints_html(const RunData& run) {
  if (run.checkpoints.empty()) return "";
  std::string rows;
  for (auto found = run.checkpoints.rbegin(); found != run.checkpoints.rend(); ++found) {
    rows += fmt::format(
        "<tr><td class=\"number\">{}</td><td>{}{}</td><td class=\"number\">{}</td>"
        "</tr>\n",
        grouped(found->step), html_escape(found->name), found->is_latest ? " (latest)" : "",
        human_bytes(found->bytes));
  }
  return fmt::format(
      "<section><h2>Checkpoints on disk</h2>\n<div class=\"card\"><table><thead><tr>"
      "<th class=\"number\">step</th><th>folder</th><th class=\"number\">size</th></tr></thead>"
      "<tbody>\n{}</tbody></table></div></section>",
      rows);
}

std::string config_html(const RunData& run) {
  if (run.config_text.empty()) return "";
  std::string lines;
  std::string_view rest = run.config_text;
  while (!rest.empty()) {
    const std::size_t newline = rest.find('\n');
    lines += config_line(rest.substr(0, newline));
    lines += '\n';
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
  }
  return fmt::format(
      "<section><h2>Config with the origin of each value</h2>\n"
      "<div class=\"card\"><pre>{}</pre></div></section>",
      lines);
}

}  // namespace trireme
