#include "trainer/tools/plan/show/drawings.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/human.h"
#include "trainer/tools/plan/show/memory_bars.h"
#include "trainer/tools/plan/show/schedule_picture.h"

namespace trireme {
namespace {

constexpr int kDrawingWidth = 1000, kLabel = 70, kRow = 18, kGap = 4, kMostDrawnRows = 32;
constexpr int kPlot = kDrawingWidth - kLabel;

std::string rectangle(double x, double y, double width, const std::string& kind,
                      const std::string& title) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{}\" class=\"{}\"><title>{}"
      "</title></rect>\n",
      kLabel + x, y, width, kRow, kind, title);
}

std::string label(int place, double y) {
  return fmt::format("<text x=\"0\" y=\"{:.0f}\">pp rank {}</text>\n", y + kRow - 5, place);
}

std::string framed(std::size_t rows, const std::string& inside, const char* what) {
  const auto height = static_cast<int>(rows) * (kRow + kGap);
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
                     kDrawingWidth, height, what, inside);
}

}  // namespace

std::string memory_svg(const RunPlan& plan) {
  const double scale =
      std::max(plan.available, static_cast<double>(plan.layout.most_device_bytes()));
  const std::vector<int> rows =
      shown_rows(static_cast<int>(plan.layout.places.size()), kMostDrawnRows);
  std::string inside;
  double y = 0;
  for (const int row : rows) {
    const MemoryPlan& memory = plan.layout.places[static_cast<std::size_t>(row)].step.memory;
    inside += label(row, y);
    double x = 0;
    int number = 0;
    for (const auto& [name, bytes] : memory.classes()) {
      const double width = static_cast<double>(bytes) / scale * kPlot;
      if (bytes > 0) {
        inside += rectangle(x, y, width, fmt::format("memory-{}", number),
                            fmt::format("{} {}", name, human_bytes(bytes)));
      }
      x += width;
      ++number;
    }
    y += kRow + kGap;
  }
  const double limit = kLabel + plan.available / scale * kPlot;
  inside +=
      fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.0f}\" class=\"limit\"/>\n",
                  std::min(limit, kDrawingWidth - 1.0), y);
  return framed(rows.size(), inside, "Memory of each pipeline rank");
}

std::string timeline_svg(const StepEstimate& estimate) {
  const Schedule& schedule = estimate.schedule;
  const Timeline& timeline = estimate.timeline;
  const std::vector<int> rows = shown_rows(static_cast<int>(schedule.ranks.size()), kMostDrawnRows);
  std::string inside;
  double y = 0;
  for (const int row : rows) {
    const auto r = static_cast<std::size_t>(row);
    inside += label(row, y);
    const std::string line =
        busy_columns(schedule.ranks[r], timeline.ranks[r], timeline.makespan, kPlot);
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find_first_not_of(line[at], at), line.size());
      if (line[at] != '.') {
        inside += rectangle(static_cast<double>(at), y, static_cast<double>(end - at),
                            fmt::format("act-{}", line[at]), std::string(1, line[at]));
      }
      at = end;
    }
    y += kRow + kGap;
  }
  return framed(rows.size(), inside, "Timeline of each pipeline rank");
}

}  // namespace trireme
