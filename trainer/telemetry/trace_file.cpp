#include "trainer/telemetry/trace_file.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace trireme {
namespace {

template <class Clock>
std::int64_t nanoseconds() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

// The format uses microseconds; a double would lose the nanoseconds of a wall-clock time.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

std::filesystem::path removed(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return path;
}

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path, int rank, std::string_view rank_name)
    : file_(removed(path)),
      rank_(rank),
      offset_(nanoseconds<std::chrono::system_clock>() - nanoseconds<std::chrono::steady_clock>()) {
  add("M", "", "process_name", now(), "", {{"name", rank_name}});
  add("M", "", "process_sort_index", now(), "", {{"sort_index", rank}});
  add("M", "", "thread_name", now(), "", {{"name", "host"}});
  flush();
}

std::int64_t TraceFile::now() const {
  return at(nanoseconds<std::chrono::steady_clock>());
}

void TraceFile::span(std::string_view category, std::string_view name, std::int64_t start,
                     std::int64_t end, const Details& details) {
  add("X", category, name, start, R"("dur":)" + microseconds(end - start), details);
}

void TraceFile::name_device(std::string_view name) {
  add("M", "", "thread_name", now(), "", {{"name", name}}, Row::kDevice);
}

void TraceFile::device_span(std::string_view category, std::string_view name, std::int64_t start,
                            std::int64_t end, const Details& details) {
  add("X", category, name, start, R"("dur":)" + microseconds(end - start), details, Row::kDevice);
}

void TraceFile::beside(std::string_view category, std::string_view name, std::int64_t start,
                       std::int64_t end, const Details& details) {
  const std::string id = fmt::format(R"("id":"{}.{}")", rank_, besides_++);
  add("b", category, name, start, id, details);
  add("e", category, name, end, id, Details::object());
}

void TraceFile::add(std::string_view phase, std::string_view category, std::string_view name,
                    std::int64_t at, std::string_view more, const Details& details, Row row) {
  constexpr int kDevices = 1'000'000;  // above every rank: viewers identify rows by this number
  collected_ += fmt::format(R"({}{{"ph":"{}","cat":"{}","name":{},"pid":{},"tid":{},"ts":{})",
                            std::exchange(first_, false) ? "[\n" : ",\n", phase, category,
                            Details(name).dump(), rank_,
                            row == Row::kDevice ? kDevices + rank_ : rank_, microseconds(at));
  if (!more.empty()) collected_.append(",").append(more);
  if (!details.empty()) collected_.append(R"(,"args":)").append(details.dump());
  collected_ += '}';
}

void TraceFile::flush() {
  if (!collected_.empty()) file_.append(std::exchange(collected_, {}));
}

void TraceFile::close() {
  collected_ += "\n]\n";
  flush();
}

}  // namespace trireme
