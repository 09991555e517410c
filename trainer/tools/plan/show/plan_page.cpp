#include "trainer/tools/plan/show/plan_page.h"

#include <fmt/format.h>

#include "model/base/human.h"
#include "trainer/tools/plan/show/assets.h"
#include "trainer/tools/plan/show/drawings.h"
#include "trainer/tools/plan/show/plan_text.h"
#include "trainer/tools/report/assets.h"
#include "trainer/tools/report/html.h"

namespace trireme {
namespace {

std::string tile(const std::string& value, const std::string& label) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", html_escape(value),
                     html_escape(label));
}

std::string tiles(const RunPlan& plan, const PlanOptions& options) {
  std::string text = tile(human_duration(plan.estimate.seconds), "step time") +
                     tile(human_count(plan.tokens_per_second), "tokens/s") +
                     tile(fmt::format("{:.1f} %", 100 * plan.mfu), "MFU") +
                     tile(fmt::format("{:.1f} %", 100 * plan.estimate.timeline.idle_fraction()),
                          "pipeline bubble") +
                     tile(human_bytes(plan.layout.most_device_bytes()), "peak memory of a rank") +
                     tile(human_duration(plan.elapsed), "run time") +
                     tile(human_count(plan.device_hours), "device-hours");
  if (plan.goodput) {
    text += tile(fmt::format("{:.1f} %", 100 * plan.goodput->configured.shares.useful), "goodput");
  }
  if (options.price > 0) text += tile(fmt::format("{:.6g}", plan.cost), "cost");
  return text;
}

std::string rows_html(const RunPlan& plan, const PlanOptions& options) {
  std::string text;
  for (const auto& [key, value] : plan_rows(plan, options)) {
    text += fmt::format("<tr><td class=\"event\">{}</td><td class=\"details\">{}</td></tr>\n",
                        html_escape(key), html_escape(value));
  }
  return text;
}

std::string memory_table(const LayoutPlan& plan) {
  std::string text = "<tr><th>Pipeline rank</th>";
  for (const auto& [name, bytes] : plan.places.front().step.memory.classes()) {
    text += fmt::format("<th class=\"number\">{}</th>", name);
  }
  text += "<th class=\"number\">total</th></tr>\n";
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const MemoryPlan& memory = plan.places[i].step.memory;
    text += fmt::format("<tr><td>{}</td>", i);
    for (const auto& [name, bytes] : memory.classes()) {
      text += fmt::format("<td class=\"number\">{}</td>", human_bytes(bytes));
    }
    text += fmt::format("<td class=\"number\">{}</td></tr>\n", human_bytes(memory.total()));
  }
  return text;
}

std::string legend(const LayoutPlan& plan) {
  std::string text;
  int number = 0;
  for (const auto& [name, bytes] : plan.places.front().step.memory.classes()) {
    text += fmt::format("<span><i class=\"memory-{}\"></i>{}</span> ", number++, name);
  }
  return text;
}

std::string traffic_table(const RunPlan& plan) {
  std::string text;
  for (const AxisPlan& axis : plan.traffic) {
    const bool timed = axis.seconds && *axis.seconds > 0;
    text += fmt::format(
        "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
        "<td class=\"number\">{}</td></tr>\n",
        axis.axis, human_bytes(static_cast<std::uint64_t>(axis.bytes)),
        timed ? human_duration(*axis.seconds) : "",
        timed ? fmt::format("{:.0f} %", 100 * *axis.hidden / *axis.seconds) : "");
  }
  return text;
}

std::string search_section(const std::string& search) {
  if (search.empty()) return "";
  return fmt::format("<section><h2>Search</h2><div class=\"card\"><pre>{}</pre></div></section>",
                     html_escape(search));
}

std::string timeline_section(const RunPlan& plan) {
  if (plan.config.parallelism.pipeline == 1) return "";
  return "<section><h2>Schedule</h2><div class=\"card drawn\"><p class=\"legend\">"
         "<span><i class=\"act-F\"></i>forward</span> <span><i class=\"act-B\"></i>backward</span> "
         "<span><i class=\"act-W\"></i>backward, weight gradients</span></p>" +
         timeline_svg(plan.estimate) + "</div></section>";
}

}  // namespace

std::string plan_page(const RunPlan& plan, const PlanOptions& options, const std::string& search) {
  const std::string name = model_name(plan.config);
  const char* state = plan.fits() ? "good\">it fits" : "bad\">it does not fit";
  return fill(
      kPlanHtml,
      {{"title", html_escape(fmt::format("{}: plan", name))},
       {"style", std::string(kPageStyle) + std::string(kPlanStyle)},
       {"heading", html_escape(fmt::format("{} on {} x {}", name,
                                           world_size(plan.config.parallelism), plan.device.name))},
       {"state", fmt::format("<span class=\"state {}</span>", state)},
       {"tiles", tiles(plan, options)},
       {"rows", rows_html(plan, options)},
       {"memory", memory_svg(plan)},
       {"legend", legend(plan.layout)},
       {"memory-table", memory_table(plan.layout)},
       {"timeline", timeline_section(plan)},
       {"traffic", traffic_table(plan)},
       {"search", search_section(search)}});
}

}  // namespace trireme
