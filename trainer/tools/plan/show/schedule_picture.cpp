#include "trainer/tools/plan/show/schedule_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace trireme {
namespace {

constexpr std::string_view kWorkLetters = ".FBIW";
constexpr std::array<int, 5> kWorkColors{0, 4, 2, 2, 3};

std::size_t letter_number(char letter) {
  return kWorkLetters.find(letter);
}

}  // namespace

std::string busy_columns(const std::vector<Action>& actions,
                         const std::vector<Timeline::Span>& spans, double makespan, int columns) {
  using Shares = std::array<double, kWorkLetters.size()>;
  std::vector<Shares> shares(static_cast<std::size_t>(columns));
  const double width = makespan / columns;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::size_t what = letter_number(letter_of(actions[i].kind));
    const auto first = static_cast<int>(spans[i].start / width);
    for (int c = first; c < columns && c * width < spans[i].end; ++c) {
      shares[static_cast<std::size_t>(c)][what] +=
          std::min(spans[i].end, (c + 1) * width) - std::max(spans[i].start, c * width);
    }
  }
  // Time of a letter that a column could not show carries over to the next column.
  std::string line;
  Shares owed{};
  for (Shares& column : shares) {
    column[0] = width;
    for (std::size_t what = 1; what < column.size(); ++what) column[0] -= column[what];
    for (std::size_t what = 0; what < column.size(); ++what) owed[what] += column[what];
    const auto most =
        static_cast<std::size_t>(std::max_element(owed.begin(), owed.end()) - owed.begin());
    owed[most] -= width;
    line += kWorkLetters[most];
  }
  return line;
}

std::string schedule_picture(const Schedule& schedule, const Timeline& timeline,
                             const Canvas& canvas) {
  constexpr int kLabel = 10;
  const int columns = std::max(10, canvas.columns - kLabel - 2);
  std::string text;
  for (const int row : shown_rows(static_cast<int>(schedule.ranks.size()), kMostRows)) {
    const auto r = static_cast<std::size_t>(row);
    const std::string line =
        busy_columns(schedule.ranks[r], timeline.ranks[r], timeline.makespan, columns);
    text += fmt::format("{:<{}}|", fmt::format("pp rank {}", row), kLabel);
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find_first_not_of(line[at], at), line.size());
      const int color = kWorkColors[letter_number(line[at])];
      const std::string run = line.substr(at, end - at);
      text += line[at] == '.' ? run : painted(run, color, canvas);
      at = end;
    }
    text += "|\n";
  }
  return text + "F forward  B backward (I: input gradients, W: weight gradients)  . idle\n";
}

}  // namespace trireme
