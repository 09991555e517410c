#include "trainer/loop/data_changes.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/value_text.h"
#include "trainer/engine/data_feed.h"
#include "trainer/loop/allowed_changes.h"

namespace trireme {
namespace {

// The stages that start before a position, with their first samples.
std::vector<std::pair<std::uint64_t, std::vector<DataSource>>> begun(const RunConfig& config,
                                                                     std::uint64_t position) {
  std::vector<std::pair<std::uint64_t, std::vector<DataSource>>> begun{{0, config.data.train}};
  for (const DataStage& stage : config.data.stages) {
    const std::uint64_t first = first_sample_of_step(config, stage.from_step);
    if (first < position) begun.emplace_back(first, stage.train);
  }
  return begun;
}

// The first step that has no sample before the position.
std::int64_t next_step(const RunConfig& config, std::uint64_t position) {
  if (position == 0) return 1;
  return step_of_sequence(config.training, static_cast<std::int64_t>(position) - 1) + 1;
}

// Config lines that keep the stages before `step` and append the new ones.
std::string lines(const RunConfig& before, const RunConfig& after, std::int64_t step) {
  std::vector<DataSource> train = before.data.train;
  std::vector<DataStage> stages;
  for (const DataStage& stage : before.data.stages) {
    if (stage.from_step < step) stages.push_back(stage);
  }
  // The sources of the new config at that step.
  std::vector<DataSource> wanted = after.data.train;
  for (const DataStage& stage : after.data.stages) {
    if (stage.from_step <= step) wanted = stage.train;
  }
  stages.push_back({step, wanted});
  for (const DataStage& stage : after.data.stages) {
    if (stage.from_step > step) stages.push_back(stage);
  }
  return say("  [data] train = ", to_toml(Slot(&train)),
             "\n  [data] stages = ", to_toml(Slot(&stages)));
}

void move_to(std::vector<DataSource>& sources, const std::vector<DataSource>& now) {
  const auto name = [](const DataSource& source) {
    return std::filesystem::path(source.path).filename();
  };
  for (std::size_t i = 0; i < std::min(sources.size(), now.size()); ++i) {
    if (name(sources[i]) == name(now[i])) sources[i].path = now[i].path;
  }
}

}  // namespace

StageChange stage_change(const RunConfig& before, const RunConfig& after, std::uint64_t position) {
  StageChange change;
  const bool same =
      before.data.train == after.data.train && before.data.stages == after.data.stages;
  if (same || after.data.order == "megatron") return change;
  const std::vector<std::string>& keys = after.checkpoint.allow_changes;
  const bool is_listed =
      allows_all(after) || std::find(keys.begin(), keys.end(), "data.stages") != keys.end();
  const bool kept = begun(before, position) == begun(after, position) &&
                    before.training.global_batch_size == after.training.global_batch_size &&
                    before.training.rampup_batch_size == after.training.rampup_batch_size;
  change.allowed = kept && is_listed;
  if (change.allowed) return change;
  change.advice = "\nTo change it from here on,";
  if (!kept) {
    change.advice += say(" keep the sources of the samples so far:\n",
                         lines(before, after, next_step(after, position)), "\nand");
  }
  change.advice += " allow it: [checkpoint] allow_changes = [\"data.stages\"]";
  return change;
}

RunConfig with_moved_data(RunConfig before, const RunConfig& now) {
  move_to(before.data.train, now.data.train);
  const std::size_t stages = std::min(before.data.stages.size(), now.data.stages.size());
  for (std::size_t i = 0; i < stages; ++i) {
    move_to(before.data.stages[i].train, now.data.stages[i].train);
  }
  return before;
}

}  // namespace trireme
