#include "trainer/telemetry/events_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/json.h"

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
  return EventsLog::Details::parse(line, nullptr, false).is_object();
}

// The last complete line of a file that ends with `text`.
std::string_view last_line(std::string_view text) {
  text = text.substr(0, text.rfind('\n') + 1);
  if (text.empty()) return text;
  text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1);
}

EventsMark mark_of(const File& file) {
  const auto tail_of = [&](std::uint64_t most) {
    const std::uint64_t size = file.size(), bytes = std::min(size, most);
    std::string text(bytes, '\0');
    file.read_at(size - bytes, std::as_writable_bytes(std::span(text)));
    return text;
  };
  constexpr std::uint64_t kUsualTail = 64u << 10;
  const std::string tail = tail_of(kUsualTail);
  const std::string_view last = last_line(tail);
  if (const auto chain = chain_of(last)) {
    const auto object = EventsLog::Details::parse(last, nullptr, false);
    const std::int64_t number = json_at<std::int64_t>(object, "line").value_or(0);
    if (number > 0) return {number, *chain};
  }
  // a line of an earlier version, or one longer than kUsualTail
  const std::string text = tail_of(UINT64_MAX);
  const std::string_view longest = last_line(text);
  return {std::count(text.begin(), text.end(), '\n'), chain_of(longest).value_or(0)};
}

// Adds the line number and the chain to a record.
std::string chained_event(const File& file, const std::string& record) {
  EventsMark before{};
  try {
    before = mark_of(file);
  } catch (const EnvironmentError&) {
    // the file cannot be read back: the event is written all the same, and the audit reports the
    // broken chain
  }
  std::string object = fmt::format("{},\"line\":{}}}", record, before.lines + 1);
  return chained(std::move(object), before.chain).text + '\n';
}

}  // namespace

EventsLog::EventsLog(const std::filesystem::path& path)
    : cut_(cut_lines(path, is_event)), file_(path, RecordFile::kWaitingBytes, chained_event) {}

EventsMark EventsLog::mark() const {
  return mark_of(File::open_read(file_.path()));
}

void EventsLog::record(std::string_view event, std::int64_t step, const Details& details) {
  require(details.is_object(), "the details of event ", event, " must be a JSON object");
  Details line = {{"time", utc_now()}, {"event", event}, {"step", step}};
  for (const auto& [key, value] : details.items()) {
    require(!line.contains(key) && key != "line" && key != "chain", "the event ", event,
            " has a duplicate key ", key);
    line[key] = value;
  }
  std::string text = line.dump(-1, ' ', false, Details::error_handler_t::replace);
  text.pop_back();  // chained_event() adds the closing brace
  file_.append(std::move(text));
}

}  // namespace trireme
