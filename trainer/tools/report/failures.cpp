#include "trainer/tools/report/failures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <vector>

#include "model/base/human.h"
#include "trainer/tools/report/goodput.h"
#include "trainer/tools/report/html.h"

namespace trireme {
namespace {

std::string listed(const RunEvent& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_array()) return "";
  std::vector<std::string> items;
  for (const RunEvent& item : *found) {
    items.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  }
  return fmt::format("{}", fmt::join(items, ", "));
}

// Joins the keys that exist: "a; b; c".
class Parts {
 public:
  void add(const std::string& value, fmt::format_string<const std::string&> form) {
    if (value.empty()) return;
    if (!text_.empty()) text_ += "; ";
    text_ += fmt::format(form, value);
  }
  void seconds(const RunEvent& event, const char* key,
               fmt::format_string<const std::string&> form) {
    if (const auto number = number_of(event, key)) add(human_duration(*number), form);
  }
  void count(const RunEvent& event, const char* key, fmt::format_string<const std::string&> form) {
    if (const auto number = number_of(event, key)) add(fmt::format("{:.0f}", *number), form);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::optional<FailureEvent> failure_event_of(const RunEvent& event) {
  Parts parts;
  if (is(event, "failure")) {
    parts.add(text_of(event, "text"), "{}");
    parts.add(text_of(event, "health"), "health: {}");
    parts.add(listed(event, "hosts"), "on {}");
    parts.seconds(event, "detect_seconds", "detected {} after its last progress");
    return FailureEvent{"failure", parts.text(), true};
  }
  if (is(event, "skip") || is(event, "rollback")) {
    parts.add(text_of(event, "reason"), "{}");
    parts.count(event, "to_step", "back to step {}");
    return FailureEvent{is(event, "skip") ? "step skipped" : "rolled back", parts.text(), true};
  }
  if (is(event, "replicas_differ")) {
    parts.add(listed(event, "ranks"), "ranks {}");
    parts.add(listed(event, "tensors"), "tensors {}");
    return FailureEvent{"replicas differ", parts.text(), true};
  }
  if (is(event, "self_check")) {
    parts.add(text_of(event, "verdict"), "{}");
    parts.add(text_of(event, "why"), "{}");
    return FailureEvent{"self-check of the first step", parts.text()};
  }
  if (is(event, "launch")) {
    parts.add(text_of(event, "why"), "{}");
    parts.count(event, "ranks", "{} ranks");
    parts.count(event, "attempt", "attempt {}");
    return FailureEvent{"launched", parts.text()};
  }
  if (is(event, "ended")) {
    parts.count(event, "exit_code", "exit code {}");
    parts.seconds(event, "seconds", "after {}");
    parts.add(text_of(event, "verdict"), "{}");
    return FailureEvent{"ended", parts.text(), number_of(event, "exit_code").value_or(0) != 0};
  }
  if (is(event, "recovered")) {
    parts.seconds(event, "lost_seconds", "next new step {} after detection");
    parts.seconds(event, "detect_seconds", "detection {}");
    parts.seconds(event, "end_seconds", "shutdown {}");
    parts.seconds(event, "relaunch_seconds", "relaunch {}");
    parts.seconds(event, "load_seconds", "of which loading {}");
    parts.count(event, "recomputed_steps", "recomputed steps: {}");
    parts.add(text_of(event, "resumed_from"), "state loaded from {}");
    return FailureEvent{"recovered", parts.text()};
  }
  if (is(event, "excluded") || is(event, "returned")) {
    parts.add(text_of(event, "host"), "{}");
    parts.add(text_of(event, "why"), "{}");
    return FailureEvent{is(event, "excluded") ? "host excluded" : "host returned", parts.text()};
  }
  if (is(event, "give_up")) {
    parts.add(text_of(event, "why"), "{}");
    parts.count(event, "exit_code", "exit code {}");
    return FailureEvent{"gave up", parts.text(), true};
  }
  return std::nullopt;
}

namespace {

std::string rows_html(const RunData& run) {
  constexpr std::size_t kMost = 300;
  std::string rows;
  std::size_t shown = 0;
  for (auto event = run.events.rbegin(); event != run.events.rend(); ++event) {
    const std::optional<FailureEvent> found = failure_event_of(*event);
    if (!found) continue;
    if (++shown > kMost) continue;
    rows += fmt::format(
        "<tr{}><td class=\"time\">{}</td><td class=\"number\">{}</td><td class=\"event\">{}</td>"
        "<td class=\"details\">{}</td></tr>\n",
        found->bad ? " class=\"bad\"" : "", html_escape(short_time(text_of(*event, "time"))),
        grouped(step_of(*event)), found->what, html_escape(found->text));
  }
  if (shown > kMost) {
    rows += fmt::format("<tr><td colspan=\"4\">{} earlier events are in events.jsonl</td></tr>\n",
                        grouped(static_cast<std::int64_t>(shown - kMost)));
  }
  return rows;
}

std::string share_row(const std::string& name, double seconds, double wall) {
  return fmt::format(
      "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{:.2f} %</td></tr>\n", name,
      human_duration(seconds), 100 * seconds / wall);
}

std::string times_html(const RunData& run) {
  const std::optional<Goodput> found = goodput(run);
  if (!found) return "";
  std::string rows =
      share_row("<strong>goodput: useful steps</strong>", found->useful, found->wall);
  for (const Goodput::Share& share : found->lost) {
    rows += share_row(share.name, share.seconds, found->wall);
  }
  return fmt::format(
      "<div class=\"card\"><table><thead><tr><th>wall time since the first start: {}</th>"
      "<th class=\"number\">time</th><th class=\"number\">share</th></tr></thead><tbody>\n{}"
      "</tbody></table></div>",
      human_duration(found->wall), rows);
}

}  // namespace

std::string failures_html(const RunData& run) {
  const std::string times = times_html(run);
  std::string rows = rows_html(run);
  if (!rows.empty()) {
    rows = fmt::format(
        "<div class=\"card\"><table class=\"events\"><thead><tr><th>time (UTC)</th>"
        "<th class=\"number\">step</th><th>what</th><th>details</th></tr></thead><tbody>\n{}"
        "</tbody></table></div>",
        rows);
  }
  if (times.empty() && rows.empty()) return "";
  return fmt::format("<section><h2>Time, failures and restarts</h2>\n{}{}</section>", times, rows);
}

}  // namespace trireme
