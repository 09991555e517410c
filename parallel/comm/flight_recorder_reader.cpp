#include "parallel/comm/flight_recorder_reader.h"

#include <algorithm>

#include "model/base/error.h"

namespace trireme {
namespace {

template <std::size_t n>
std::string text_of(const std::array<char, n>& chars) {
  return {chars.begin(), std::find(chars.begin(), chars.end(), '\0')};
}

}  // namespace

const RecordedGroup* FlightRecorderPage::group() const {
  const auto index = static_cast<std::size_t>(progress.group);
  if (operation() == flight::Operation::kNone || progress.group < 0 || index >= groups.size()) {
    return nullptr;
  }
  return &groups[index];
}

FlightRecorderPage page_of(const flight::Layout& layout) {
  FlightRecorderPage page;
  page.progress = layout.progress.read().value;
  for (const flight::Group& group : layout.groups) {
    const flight::GroupInfo info = group.info.read().value;
    page.groups.push_back({.name = text_of(info.name),
                           .key = info.key,
                           .size = info.size,
                           .begun = group.begun.load(std::memory_order_acquire),
                           .finished = group.finished.load(std::memory_order_acquire)});
  }
  while (!page.groups.empty() && page.groups.back().name.empty()) page.groups.pop_back();
  return page;
}

FlightRecorderReader::FlightRecorderReader(const std::filesystem::path& path) : file_(path) {
  if (file_.bytes().size() != sizeof(flight::Layout)) {
    throw EnvironmentError(say(path.string(), ": not a flight recorder: ", file_.bytes().size(),
                               " bytes instead of ", sizeof(flight::Layout)));
  }
  layout_ = reinterpret_cast<const flight::Layout*>(file_.bytes().data());
  const flight::Header start = header();
  if (start.magic != flight::kMagic || start.version != flight::kVersion) {
    throw EnvironmentError(
        say(path.string(), ": not a flight recorder of version ", flight::kVersion));
  }
}

std::vector<flight::Call> FlightRecorderReader::calls() const {
  std::vector<flight::Call> found;
  const std::uint64_t end = layout_->calls_begun.load(std::memory_order_acquire);
  for (std::uint64_t n = end < flight::kCalls ? 0 : end - flight::kCalls; n < end; ++n) {
    const auto seen = layout_->calls[n % flight::kCalls].read();
    if (seen.whole && seen.version == 2 * n + 2) found.push_back(seen.value);
  }
  return found;
}

}  // namespace trireme
