#include "trainer/telemetry/events_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <string>

#include "model/base/error.h"

namespace trireme {
namespace {

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), ms % 1000);
}

bool is_event(std::string_view line) {
  if (is_whole(line, R"({"time":")")) return true;
  const auto parsed = EventsLog::Details::parse(line, nullptr, false);
  return parsed.is_object();
}

}  // namespace

EventsLog::EventsLog(const std::filesystem::path& path)
    : cut_(cut_lines(path, is_event)), file_(path) {}

void EventsLog::record(std::string_view event, std::int64_t step, const Details& details) {
  require(details.is_object(), "the details of event ", event, " must be a JSON object");
  Details line = {{"time", utc_now()}, {"event", event}, {"step", step}};
  for (const auto& [key, value] : details.items()) {
    require(!line.contains(key), "the event ", event, " repeats the key ", key);
    line[key] = value;
  }
  file_.append(line.dump(-1, ' ', false, Details::error_handler_t::replace) + '\n');
}

}  // namespace trireme
