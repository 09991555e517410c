#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/base/file.h"
#include "parallel/comm/flight_recorder_layout.h"

namespace trireme {

// A group as read from a flight recorder.
struct RecordedGroup {
  std::string name;  // empty: unused slot
  std::uint64_t key = 0;
  std::uint32_t size = 0;
  std::uint64_t begun = 0, finished = 0;  // collectives
};

// Last recorded activity of a rank: of this process or of another one, alive or dead.
struct FlightRecorderPage {
  flight::Progress progress;
  std::vector<RecordedGroup> groups;  // indexed by the group number of calls

  // The group of the pending call; null if there is none.
  const RecordedGroup* group() const;
  flight::Operation operation() const { return static_cast<flight::Operation>(progress.operation); }
  flight::Phase phase() const { return static_cast<flight::Phase>(progress.phase); }
};
FlightRecorderPage page_of(const flight::Layout& layout);

// Reads the flight-recorder file of a process that may still write it.
class FlightRecorderReader {
 public:
  // Throws EnvironmentError if the file is not a flight recorder of this version.
  explicit FlightRecorderReader(const std::filesystem::path& path);

  flight::Header header() const { return layout_->header.read().value; }
  FlightRecorderPage page() const { return page_of(*layout_); }
  flight::Ending ending() const { return static_cast<flight::Ending>(layout_->ending.load()); }
  std::int64_t ended() const { return layout_->ended.load(std::memory_order_acquire); }
  // The last calls, oldest first, without those that are incomplete because of a concurrent write
  // or a kill.
  std::vector<flight::Call> calls() const;

 private:
  MappedFile file_;
  const flight::Layout* layout_;
};

}  // namespace trireme
