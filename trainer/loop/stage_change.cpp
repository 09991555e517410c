#include "trainer/loop/stage_change.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/value_text.h"
#include "trainer/loop/allowed_changes.h"
#include "trainer/loop/data_feed.h"

namespace trireme {
namespace {

// The stages that begin before a position, with the samples they begin with.
std::vector<std::pair<std::uint64_t, std::vector<DataSource>>> begun(const RunConfig& config,
                                                                     std::uint64_t position) {
  std::vector<std::pair<std::uint64_t, std::vector<DataSource>>> begun{{0, config.data.train}};
  for (const DataStage& stage : config.data.stages) {
    const std::uint64_t first = first_sample_of_step(config, stage.from_step);
    if (first < position) begun.emplace_back(first, stage.train);
  }
  return begun;
}

// The first step that none of the samples before the position can be in.
std::int64_t next_step(const RunConfig& config, std::uint64_t position) {
  if (position == 0) return 1;
  return step_of_sequence(config.training, static_cast<std::int64_t>(position) - 1) + 1;
}

// The lines that keep what was and let what is given now follow.
std::string lines(const RunConfig& before, const RunConfig& after, std::int64_t step) {
  std::vector<DataSource> train = before.data.train;
  std::vector<DataStage> stages;
  for (const DataStage& stage : before.data.stages) {
    if (stage.from_step < step) stages.push_back(stage);
  }
  // What the new config wants at that step.
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
    change.advice += say(" keep what the samples so far came from:\n",
                         lines(before, after, next_step(after, position)), "\nand");
  }
  change.advice += " allow it: [checkpoint] allow_changes = [\"data.stages\"]";
  return change;
}

}  // namespace trireme
