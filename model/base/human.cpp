#include "model/base/human.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace trireme {
namespace {

std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), kUnits[unit]);
}

std::string human_count(double count) {
  if (!std::isfinite(count)) return fmt::format("{}", count);
  constexpr std::array kUnits{"k", "M", "B", "T"};
  double value = std::abs(count);
  if (value < 999.5) return fmt::format("{:.0f}", count);
  std::size_t unit = 0;
  value /= 1000;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{}{}{}", count < 0 ? "-" : "", three_digits(value), kUnits[unit]);
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  constexpr double kLongest = 1e15;  // keeps the conversion defined
  const auto whole = static_cast<std::int64_t>(std::round(std::min(seconds, kLongest)));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  const std::int64_t minutes = (whole + 30) / 60;
  if (minutes < 24 * 60) return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
  const std::int64_t hours = (minutes + 30) / 60;
  return fmt::format("{}d{:02}h", hours / 24, hours % 24);
}

std::string grouped(std::int64_t number) {
  const std::string digits = fmt::format("{}", number);
  const std::size_t sign = number < 0 ? 1 : 0;
  std::string out;
  for (std::size_t at = 0; at < digits.size(); ++at) {
    if (at > sign && (digits.size() - at) % 3 == 0) out.push_back(',');
    out.push_back(digits[at]);
  }
  return out;
}

std::string counted(std::int64_t number, std::string_view noun) {
  const bool hisses = noun.ends_with("ch") || noun.ends_with("s");
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : hisses ? "es" : "s");
}

std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 200;
  std::string shown(text.substr(0, kMost));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return text.size() > kMost ? shown + "..." : shown;
}

}  // namespace trireme
