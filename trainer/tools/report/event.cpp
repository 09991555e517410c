#include "trainer/tools/report/event.h"

#include <cmath>
#include <cstdio>
#include <ctime>

#include <fmt/format.h>

#include "model/base/human.h"
#include "model/base/json.h"

namespace trireme {
namespace {

std::string value_text(const std::string& key, const RunEvent& value) {
  constexpr std::size_t kMost = 2000;
  if (value.is_string()) return shortened(value.get<std::string>(), kMost);
  if (value.is_number()) {
    const double number = value.get<double>();
    if (key == "bytes" && number >= 0 && number < 9e18) {
      return human_bytes(static_cast<std::uint64_t>(number));
    }
    if (key == "seconds") return human_duration(number);
    if (value.is_number_integer() && value.is_number_unsigned()) {
      return grouped(value.get<std::int64_t>());
    }
    if (value.is_number_float()) return fmt::format("{:.6g}", number);
  }
  return shortened(value.dump(-1, ' ', false, RunEvent::error_handler_t::replace), kMost);
}

}  // namespace

std::string text_of(const RunEvent& event, const char* key) {
  return json_at<std::string>(event, key).value_or("");
}

std::optional<double> number_of(const RunEvent& event, const char* key) {
  const auto number = json_at<double>(event, key);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::int64_t step_of(const RunEvent& event) {
  return json_at<std::int64_t>(event, "step").value_or(0);
}

bool is_begin(const RunEvent& event) {
  return is(event, "start") || is(event, "resume");
}

std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  text.resize(most);
  return text + " [...]";
}

std::vector<std::pair<std::string, std::string>> details_of(const RunEvent& event) {
  std::vector<std::pair<std::string, std::string>> details;
  for (const auto& [key, value] : event.items()) {
    if (key == "time" || key == "event" || key == "step") continue;
    if (key == "memory_plan") continue;  // shown in the memory section
    const std::string label = key == "bytes" ? "size" : key == "seconds" ? "took" : key;
    details.emplace_back(label, value_text(key, value));
  }
  return details;
}

std::optional<double> time_of(const RunEvent& event) {
  const std::string text = text_of(event, "time");
  std::tm date{};
  double seconds = 0;
  // NOLINTNEXTLINE(cert-err34-c): out-of-range numbers give an implausible time
  const int read = std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%lfZ", &date.tm_year,
                               &date.tm_mon, &date.tm_mday, &date.tm_hour, &date.tm_min, &seconds);
  if (read != 6 || !(seconds >= 0 && seconds < 61)) return std::nullopt;
  date.tm_year -= 1900;
  date.tm_mon -= 1;
  return static_cast<double>(::timegm(&date)) + seconds;
}

std::string short_time(std::string time) {
  constexpr std::size_t kSeconds = 19;
  if (time.size() < kSeconds || time[10] != 'T') return time;
  time[10] = ' ';
  return time.substr(0, kSeconds);
}

}  // namespace trireme
