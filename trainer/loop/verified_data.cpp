#include "trainer/loop/verified_data.h"

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <vector>

#include "data/file_hashes.h"
#include "trainer/telemetry/clock.h"
#include "trainer/telemetry/human.h"

namespace trireme {
namespace {

std::set<std::filesystem::path> token_files_of(const DataConfig& data) {
  std::set<std::filesystem::path> paths;
  const auto add = [&](const std::vector<DataSource>& sources) {
    for (const DataSource& source : sources) paths.insert(source.path);
  };
  add(data.train);
  for (const DataStage& stage : data.stages) add(stage.train);
  add(data.validation);
  return paths;
}

}  // namespace

std::string verify_data(const RunConfig& config, const checkpoint::Team& team, const World& world) {
  const double begun = seconds_now();
  std::uint64_t bytes = 0;
  std::string unknown;
  team.together([&] {
    if (world.local_rank() != 0) return std::string();
    for (const std::filesystem::path& path : token_files_of(config.data)) {
      if (const auto verified = data::verify_files(path)) {
        bytes += *verified;
      } else {
        unknown += (unknown.empty() ? "" : ", ") + path.string();
      }
    }
    return std::string();
  });
  std::string told = fmt::format("token files: {} are as they were tokenized, read in {:.1f} s",
                                 human_bytes(bytes), seconds_now() - begun);
  if (!unknown.empty()) told += "; without hashes of their own: " + unknown;
  return told;
}

}  // namespace trireme
