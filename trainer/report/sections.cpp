#include "trainer/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "trainer/report/escape.h"
#include "trainer/report/summary.h"
#include "trainer/telemetry/human.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Cuts at a character's start, so that no torn one remains.
std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  text.resize(most);
  return text + " [...]";
}

std::string value_text(const std::string& key, const Json& value) {
  constexpr std::size_t kMost = 2000;
  if (value.is_string()) return shortened(value.get<std::string>(), kMost);
  if (value.is_number()) {
    const double number = value.get<double>();
    if (key == "bytes" && number >= 0 && number < 9e18) {
      return human_bytes(static_cast<std::uint64_t>(number));
    }
    if (key == "seconds") return human_duration(number);
    if (value.is_number_integer() && value.is_number_unsigned()) {
      return grouped(value.get<std::int64_t>());
    }
    if (value.is_number_float()) return fmt::format("{:.6g}", number);
  }
  return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace), kMost);
}

std::string details_html(const Json& event) {
  std::string out;
  for (const auto& [key, value] : event.items()) {
    if (key == "time" || key == "event" || key == "step") continue;
    if (!out.empty()) out += " &nbsp; ";
    const std::string label = key == "bytes" ? "size" : key == "seconds" ? "took" : key;
    out += fmt::format("<em>{}</em> {}", html_escape(label), html_escape(value_text(key, value)));
  }
  return out;
}

// "2026-03-01T12:00:00.123Z" -> "2026-03-01 12:00:00"
std::string short_time(std::string time) {
  constexpr std::size_t kSeconds = 19;
  if (time.size() < kSeconds || time[10] != 'T') return time;
  time[10] = ' ';
  return time.substr(0, kSeconds);
}

const char* row_class(const Json& event) {
  static const std::set<std::string, std::less<>> kBad{"failure", "checkpoint_rejected", "warning"};
  const std::string name = text_of(event, "event");
  if (kBad.contains(name)) return " class=\"bad\"";
  return name == "checkpoint" ? " class=\"good\"" : "";
}

std::string event_row(const Json& event) {
  const auto step = event.find("step");
  const bool has_step = step != event.end() && step->is_number_integer();
  return fmt::format(
      "<tr{}><td class=\"time\">{}</td><td class=\"number\">{}</td><td class=\"event\">{}</td>"
      "<td class=\"details\">{}</td></tr>\n",
      row_class(event), html_escape(short_time(text_of(event, "time"))),
      has_step ? grouped(step->get<std::int64_t>()) : "", html_escape(text_of(event, "event")),
      details_html(event));
}

// Where the comment of a TOML line starts; the line's length when there is none.
std::size_t comment_start(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '"' && c == '\\') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      return i;
    }
  }
  return line.size();
}

std::string config_line(std::string_view line) {
  const std::size_t comment = comment_start(line);
  std::string code = html_escape(line.substr(0, comment));
  if (line.starts_with('[')) code = fmt::format("<span class=\"section\">{}</span>", code);
  if (comment == line.size()) return code;
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
      "<div class=\"complaints\" role=\"note\"><strong>Not all of the run could be read.</strong>\n"
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
    const auto step = event->find("step");
    const bool has_step = step != event->end() && step->is_number_integer();
    rows += fmt::format(
        "<div class=\"card\"><div class=\"sample-step\">{}</div><pre class=\"sample\">"
        "<span class=\"prompt\">{}</span>{}</pre></div>\n",
        has_step ? fmt::format("after step {}", grouped(step->get<std::int64_t>())) : "",
        html_escape(shortened(text_of(*event, "prompt"), kLongest)),
        html_escape(shortened(text_of(*event, "text"), kLongest)));
  }
  if (rows.empty()) return "";
  return fmt::format("<section><h2>Text the model wrote</h2>\n{}</section>", rows);
}

std::string events_html(const RunData& run) {
  if (run.events.empty()) return "";
  // The newest first, and of a long run its beginning, too.
  constexpr std::size_t kNewest = 400;
  constexpr std::size_t kOldest = 50;
  const std::size_t count = run.events.size();
  std::string rows;
  for (std::size_t i = count; i-- > 0;) {
    const bool is_cut = count > kNewest + kOldest;
    if (!is_cut || i >= count - kNewest || i < kOldest) rows += event_row(run.events[i]);
    if (is_cut && i == count - kNewest) {
      rows += fmt::format("<tr><td colspan=\"4\">{} more are in events.jsonl</td></tr>\n",
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
      "<section><h2>Config, and where each value came from</h2>\n"
      "<div class=\"card\"><pre>{}</pre></div></section>",
      lines);
}

}  // namespace trireme
