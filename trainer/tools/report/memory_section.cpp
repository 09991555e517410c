#include "trainer/tools/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/base/human.h"
#include "trainer/tools/report/event.h"
#include "trainer/tools/report/html.h"

namespace trireme {
namespace {

std::string bytes_text(double bytes) {
  constexpr double kMost = 9e18;
  return human_bytes(static_cast<std::uint64_t>(std::clamp(bytes, 0.0, kMost)));
}

std::string memory_row_html(const std::string& name, double bytes, double of, const char* kind) {
  const double share = of > 0 ? std::clamp(100 * bytes / of, 0.0, 100.0) : 0;
  return fmt::format(
      "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"bar-cell\"><span class=\"{}\" "
      "style=\"width:{:.2f}%\"></span></td></tr>\n",
      html_escape(name), bytes_text(bytes), kind, share);
}

}  // namespace

std::string memory_html(const RunData& run) {
  const RunEvent* begin = nullptr;
  for (const RunEvent& event : run.events) {
    if (is_begin(event) && event.contains("memory_plan_bytes")) begin = &event;
  }
  if (begin == nullptr) return "";
  const double planned = number_of(*begin, "memory_plan_bytes").value_or(0);
  const double used = largest(run.series("memory_peak_bytes"));
  const double process = largest(run.series("process_peak_bytes"));
  const double widest = std::max({planned, used, process});
  std::string rows = memory_row_html("planned", planned, widest, "planned");
  const auto classes = begin->find("memory_plan");
  if (classes != begin->end() && classes->is_object()) {
    for (const auto& [name, bytes] : classes->items()) {
      if (!bytes.is_number() || bytes.get<double>() <= 0) continue;
      rows += memory_row_html(fmt::format("\u2003{}", name), bytes.get<double>(), widest, "class");
    }
  }
  if (used > 0) rows += memory_row_html("used, largest rank", used, widest, "used");
  if (process > 0) {
    rows += memory_row_html("process, largest rank", process, widest, "process");
  }
  if (const double host = number_of(*begin, "host_memory_plan_bytes").value_or(0); host > 0) {
    rows += memory_row_html("planned, pinned host memory", host, widest, "planned");
  }
  return fmt::format(
      "<section><h2>Memory: planned and used</h2>\n<div class=\"card\"><table class=\"memory\">"
      "<tbody>\n{}</tbody></table></div>\n<p class=\"note\">The plan is that of rank 0. A step "
      "that "
      "deviates from the plan in any class ends the run. Process memory includes the program, its "
      "libraries and, on a CPU, their caches.</p></section>",
      rows);
}

}  // namespace trireme
