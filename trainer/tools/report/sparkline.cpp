#include "trainer/tools/report/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace trireme {

std::string sparkline(const Series& series, std::int64_t first, std::int64_t last,
                      std::size_t columns) {
  if (last < first) return "";
  const double span = static_cast<double>(last) - static_cast<double>(first) + 1;
  if (span < static_cast<double>(columns)) columns = static_cast<std::size_t>(span);
  struct Column {
    double sum = 0;
    int finite = 0;
    int broken = 0;
  };
  std::vector<Column> found(columns);
  for (std::size_t i = 0; i < series.steps.size(); ++i) {
    if (series.steps[i] < first || series.steps[i] > last) continue;
    const double place = (static_cast<double>(series.steps[i]) - static_cast<double>(first)) / span;
    Column& column = found[std::min(static_cast<std::size_t>(place * static_cast<double>(columns)),
                                    columns - 1)];
    if (std::isfinite(series.values[i])) {
      column.sum += series.values[i];
      ++column.finite;
    } else {
      ++column.broken;
    }
  }
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const Column& column : found) {
    if (column.finite == 0) continue;
    low = std::min(low, column.sum / column.finite);
    high = std::max(high, column.sum / column.finite);
  }
  static constexpr std::array kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (const Column& column : found) {
    if (column.finite == 0) {
      line += column.broken > 0 ? "x" : " ";
      continue;
    }
    const double height = high > low ? (column.sum / column.finite - low) / (high - low) : 0;
    line += kBlocks[static_cast<std::size_t>(height * (kBlocks.size() - 1) + 0.5)];
  }
  return line;
}

}  // namespace trireme
