#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "trainer/telemetry/record_file.h"

namespace trireme {

// RUN_DIR/trace-RANK.json: the timeline of one rank in the Chrome Trace Event Format (array form),
// for ui.perfetto.dev and chrome://tracing. Files of several ranks can be opened together: each
// rank is a process, and times are wall-clock times. Events are buffered in memory until flush(). A
// full disk never stops the run: see RecordFile. A file without close() is still readable in both
// viewers.
class TraceFile {
 public:
  using Details = nlohmann::ordered_json;  // a JSON object

  // Replaces an existing file. Throws EnvironmentError if it cannot be written.
  TraceFile(const std::filesystem::path& path, int rank, std::string_view rank_name);

  // Current time on the clock of the trace, nanoseconds: monotonic, aligned with the system clock
  // at construction.
  std::int64_t now() const;
  // Converts a CLOCK_MONOTONIC time in nanoseconds.
  std::int64_t at(std::int64_t monotonic) const { return monotonic + offset_; }

  // Work of the rank's main thread. Spans must be nested or disjoint.
  void span(std::string_view category, std::string_view name, std::int64_t start, std::int64_t end,
            const Details& details = Details::object());
  // Work of the rank's device, in a separate row with this name.
  void name_device(std::string_view name);
  void device_span(std::string_view category, std::string_view name, std::int64_t start,
                   std::int64_t end, const Details& details = Details::object());
  // Concurrent activity, such as a message in flight. These may overlap.
  void beside(std::string_view category, std::string_view name, std::int64_t start,
              std::int64_t end, const Details& details = Details::object());

  void flush();
  // Completes the JSON array. No more events may be added.
  void close();

 private:
  enum class Row : std::uint8_t { kRank, kDevice };
  void add(std::string_view phase, std::string_view category, std::string_view name,
           std::int64_t at, std::string_view more, const Details& details, Row row = Row::kRank);

  RecordFile file_;
  int rank_;
  std::int64_t offset_;  // system clock minus monotonic clock, ns
  std::int64_t besides_ = 0;
  bool first_ = true;
  std::string collected_;
};

}  // namespace trireme
