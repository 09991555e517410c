#include "trainer/telemetry/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>

namespace trireme {
namespace {

std::string bar(double fraction, int inner) {
  const int filled = static_cast<int>(fraction * inner);
  const std::string head = filled < inner ? ">" : "";
  return fmt::format("[{:=<{}}{:<{}}] ", "", filled, head, inner - filled);
}

}  // namespace

std::string progress_line(const Progress& progress, int width) {
  constexpr int kShortest = 8;
  constexpr int kLongest = 32;
  const double fraction = std::clamp(
      static_cast<double>(progress.done) / std::max(static_cast<double>(progress.total), 1.0), 0.0,
      1.0);
  // Rounds down: never "100%" before the end.
  std::string text =
      fmt::format("{:3}% {}/{}", static_cast<int>(fraction * 100), progress.done, progress.total);
  const auto room = [&] { return width - static_cast<int>(text.size()); };
  for (const std::string& part : progress.parts) {
    if (room() < static_cast<int>(part.size()) + 2) break;
    text.append(2, ' ').append(part);
  }
  constexpr int kFrame = 3;  // brackets and a space
  if (room() >= kShortest + kFrame) {
    text.insert(0, bar(fraction, std::min(room() - kFrame, kLongest)));
  }
  if (room() < 0) text.resize(std::max(width, 0));
  return text;
}

int terminal_width(int descriptor) {
  struct winsize size {};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace trireme
