#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "trainer/telemetry/record_file.h"

namespace trireme {

// RUN_DIR/trace-RANK.json: what one rank did and when, in Chrome's Trace Event Format
// (the array form), which ui.perfetto.dev and chrome://tracing open. Several ranks' files
// can be opened together: a rank is a process there, and times are of the system's clock.
// What is recorded waits in memory until flush(). A full disk never stops the run: see
// RecordFile; nor does an end without close() spoil the file for either viewer.
class TraceFile {
 public:
  using Details = nlohmann::ordered_json;  // an object

  // Replaces a file of that name. Throws EnvironmentError when it cannot be written.
  TraceFile(const std::filesystem::path& path, int rank, std::string_view rank_name);

  // Nanoseconds on the clock of all times here: monotonic, at the start set to the
  // system's.
  std::int64_t now() const;
  // Of a time of CLOCK_MONOTONIC, ns.
  std::int64_t at(std::int64_t monotonic) const { return monotonic + offset_; }

  // Work of the rank's own thread: spans lie inside each other or apart.
  void span(std::string_view category, std::string_view name, std::int64_t start, std::int64_t end,
            const Details& details = Details::object());
  // Work of the rank's device, in a row of its own that begins with its name.
  void name_device(std::string_view name);
  void device_span(std::string_view category, std::string_view name, std::int64_t start,
                   std::int64_t end, const Details& details = Details::object());
  // What goes on beside it, like a message on its way; these may overlap as they like.
  void beside(std::string_view category, std::string_view name, std::int64_t start,
              std::int64_t end, const Details& details = Details::object());

  void flush();
  // No more is recorded; the file is then whole JSON.
  void close();

 private:
  enum class Row : std::uint8_t { kRank, kDevice };
  void add(std::string_view phase, std::string_view category, std::string_view name,
           std::int64_t at, std::string_view more, const Details& details, Row row = Row::kRank);

  RecordFile file_;
  int rank_;
  std::int64_t offset_;  // from the monotonic clock to the system's, ns
  std::int64_t besides_ = 0;
  bool first_ = true;
  std::string collected_;
};

}  // namespace trireme
