#include "trainer/tools/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/base/human.h"
#include "trainer/tools/report/html.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// "0F3" is the forward of stage 0 and micro-batch 3; B and W are input and weight gradients.
const char* kind_of(const TracedSpan& span) {
  if (span.category == "communication") return "message";
  if (span.category == "idle") return "idle";
  if (span.category != "compute") return "part";
  const std::size_t letter = span.name.find_first_not_of("0123456789");
  if (letter == std::string::npos) return "forward";
  return span.name[letter] == 'B' ? "backward" : span.name[letter] == 'W' ? "weights" : "forward";
}

class Lanes {
 public:
  void add(const std::string& name, const std::vector<TracedSpan>& spans) {
    Json drawn = Json::array();
    for (const TracedSpan& span : spans) {
      if (count_++ >= kMost) break;
      drawn.push_back({rounded(span.start), rounded(span.end), place(span.name), kind_of(span)});
    }
    if (drawn.empty()) return;
    lanes_.push_back({{"name", name}, {"spans", std::move(drawn)}});
  }
  Json lanes() { return std::move(lanes_); }
  Json names() { return std::move(names_); }

 private:
  static constexpr std::size_t kMost = 40'000;
  static double rounded(double ms) { return std::round(ms * 1e4) / 1e4; }
  std::size_t place(const std::string& name) {
    const auto [found, is_new] = places_.try_emplace(name, places_.size());
    if (is_new) names_.push_back(name);
    return found->second;
  }

  Json lanes_ = Json::array();
  Json names_ = Json::array();
  std::map<std::string, std::size_t> places_;
  std::size_t count_ = 0;
};

std::string ranks_html(const TracedStep& traced) {
  if (traced.ranks.size() < 2) return "";
  std::vector<const TracedRank*> ranks;
  for (const TracedRank& rank : traced.ranks) ranks.push_back(&rank);
  std::sort(ranks.begin(), ranks.end(),
            [](const TracedRank* a, const TracedRank* b) { return a->work_ms > b->work_ms; });
  const double middle = ranks[ranks.size() / 2]->work_ms;
  constexpr std::size_t kShown = 8;
  std::string rows;
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) {
    const TracedRank& rank = *ranks[i];
    rows += fmt::format(
        "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{:+.1f} %</td>"
        "<td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
        html_escape(rank.name), human_duration(rank.work_ms / 1000),
        middle > 0 ? 100 * (rank.work_ms / middle - 1) : 0.0, human_duration(rank.wait_ms / 1000),
        human_duration(rank.step_ms / 1000));
  }
  return fmt::format(
      "<div class=\"card\"><table><thead><tr><th>slowest ranks (median of traced steps)</th>"
      "<th class=\"number\">compute per step</th><th class=\"number\">vs. median rank</th>"
      "<th class=\"number\">idle</th><th class=\"number\">step</th></tr></thead><tbody>\n{}"
      "</tbody></table></div>",
      rows);
}

}  // namespace

Json timeline_data(const TracedStep& traced) {
  Lanes lanes;
  for (const TracedRank& rank : traced.ranks) {
    const std::string name = fmt::format("rank {}", rank.rank);
    lanes.add(name, rank.main);
    lanes.add(name + ", device", rank.device);
    lanes.add(name + ", overlapped", rank.overlapped);
    if (traced.ranks.size() == 1) lanes.add(name + ", step", rank.parts);
  }
  Json data{{"length", traced.length_ms}};
  data["names"] = lanes.names();
  data["lanes"] = lanes.lanes();
  return data;
}

std::string timeline_html(const TracedStep& traced, std::size_t number) {
  const std::string left_out =
      traced.left_out > 0 ? fmt::format(" {} more ranks are not shown.", traced.left_out) : "";
  return fmt::format(
      "<section><h2>Timeline of step {}</h2>\n"
      "<figure class=\"chart timeline\" data-number=\"{}\"><figcaption><span class=\"legend\">"
      "</span></figcaption><svg role=\"img\" aria-label=\"Timeline of each rank\"></svg>"
      "</figure>\n<p class=\"note\">The traced step of median length. Hover over a bar for "
      "details; drag to zoom, double-click to reset.{} trace-RANK.json opens in "
      "ui.perfetto.dev.</p>\n{}</section>",
      grouped(traced.step), number, left_out, ranks_html(traced));
}

}  // namespace trireme
