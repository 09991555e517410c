#include "trainer/tools/plan/show/memory_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/base/human.h"

namespace trireme {
namespace {

// By class, in the order of MemoryPlan::classes().
constexpr std::array<char, 8> kClassLetters{'W', 'M', 'G', 'O', 'A', 'S', 'D', 'C'};
constexpr std::array<int, 8> kClassColors{4, 6, 2, 3, 5, 1, 7, 7};

// Rounds the ends of the classes, not their lengths, so that the bar has the right total.
std::string bar(const MemoryPlan& plan, double scale, int columns, const Canvas& canvas) {
  std::string text;
  double bytes = 0;
  int end = 0;
  const auto classes = plan.classes();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    bytes += static_cast<double>(classes[i].second);
    const int next = std::min(columns, static_cast<int>(std::lround(bytes / scale * columns)));
    if (next > end) {
      text += painted(std::string(static_cast<std::size_t>(next - end), kClassLetters[i]),
                      kClassColors[i], canvas);
    }
    end = std::max(end, next);
  }
  return text + std::string(static_cast<std::size_t>(columns - end), '.');
}

}  // namespace

std::vector<int> shown_rows(int count, int most) {
  std::vector<int> rows;
  const int shown = std::min(count, most);
  for (int i = 0; i < shown; ++i) {
    rows.push_back(shown == 1 ? 0 : static_cast<int>(std::int64_t{i} * (count - 1) / (shown - 1)));
  }
  return rows;
}

std::string painted(const std::string& text, int color, const Canvas& canvas) {
  return canvas.colors ? fmt::format("\x1b[30;4{}m{}\x1b[0m", color, text) : text;
}

std::string memory_bars(const LayoutPlan& plan, double available, const Canvas& canvas) {
  constexpr int kLabel = 10, kValue = 12;
  const int columns = std::max(10, canvas.columns - kLabel - kValue - 3);
  const double scale = std::max(available, static_cast<double>(plan.most_device_bytes()));
  std::string text;
  for (const int row : shown_rows(static_cast<int>(plan.places.size()), kMostRows)) {
    const PipelinePlace& place = plan.places[static_cast<std::size_t>(row)];
    text += fmt::format("{:<{}}|{}| {:>{}}\n", fmt::format("pp rank {}", row), kLabel,
                        bar(place.step.memory, scale, columns, canvas),
                        human_bytes(place.step.memory.total()), kValue - 1);
  }
  const auto classes = plan.places.front().step.memory.classes();
  std::string line;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const std::string entry = fmt::format("{} {}", kClassLetters[i], classes[i].first);
    if (static_cast<int>(line.size() + entry.size()) + 2 > canvas.columns) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : "  ") + entry;
  }
  return fmt::format("{}{}\n. free (of {})\n", text, line,
                     human_bytes(static_cast<std::uint64_t>(available)));
}

}  // namespace trireme
