#include "trainer/loop/moved_data.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace trireme {
namespace {

void move_to(std::vector<DataSource>& sources, const std::vector<DataSource>& now) {
  const auto name = [](const DataSource& source) {
    return std::filesystem::path(source.path).filename();
  };
  for (std::size_t i = 0; i < std::min(sources.size(), now.size()); ++i) {
    if (name(sources[i]) == name(now[i])) sources[i].path = now[i].path;
  }
}

}  // namespace

RunConfig with_moved_data(RunConfig before, const RunConfig& now) {
  move_to(before.data.train, now.data.train);
  const std::size_t stages = std::min(before.data.stages.size(), now.data.stages.size());
  for (std::size_t i = 0; i < stages; ++i) {
    move_to(before.data.stages[i].train, now.data.stages[i].train);
  }
  return before;
}

}  // namespace trireme
