#include "trainer/loop/data_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "data/open_tokens.h"
#include "data/sidecar.h"
#include "data/tokenizer.h"
#include "model/base/error.h"
#include "model/base/human.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/value_text.h"
#include "trainer/engine/data_feed.h"
#include "trainer/loop/allowed_changes.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

std::vector<DataSource> sources_of(const DataConfig& data) {
  std::vector<DataSource> sources = data.train;
  for (const DataStage& stage : data.stages) {
    sources.insert(sources.end(), stage.train.begin(), stage.train.end());
  }
  sources.insert(sources.end(), data.validation.begin(), data.validation.end());
  return sources;
}

std::optional<data::Sidecar> sidecar_of(const DataSource& source) {
  try {
    return data::read_sidecar(source.path, *data::open_tokens(source.path));
  } catch (const DataError&) {
    return std::nullopt;  // reported where the training data are opened
  }
}

// Everything that a stage can set, at a step.
DataStage state_at(const RunConfig& config, std::int64_t step) {
  DataStage state{step, config.data.train, config.training.seq_len, config.model.rope_scaling};
  for (const DataStage& stage : config.data.stages) {
    if (stage.from_step > step) continue;
    if (!stage.train.empty()) state.train = stage.train;
    if (stage.seq_len > 0) state.seq_len = stage.seq_len;
    if (stage.rope_scaling) state.rope_scaling = stage.rope_scaling;
  }
  return state;
}

// The stages that start before a position.
std::vector<DataStage> begun(const RunConfig& config, std::uint64_t position) {
  std::vector<DataStage> begun{state_at(config, 1)};
  for (const DataStage& stage : config.data.stages) {
    const std::uint64_t first = first_sample_of_step(config, stage.from_step);
    if (first < position) begun.push_back(state_at(config, stage.from_step));
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
  std::int64_t seq_len = before.training.seq_len;
  std::vector<DataStage> stages;
  for (const DataStage& stage : before.data.stages) {
    if (stage.from_step < step) stages.push_back(stage);
  }
  // What the new config changes at that step.
  const DataStage was = state_at(before, step - 1);
  DataStage wanted = state_at(after, step);
  const bool is_longer = wanted.seq_len != was.seq_len;
  const bool is_scaled = wanted.rope_scaling != was.rope_scaling;
  if (wanted.train == was.train && (is_longer || is_scaled)) wanted.train.clear();
  if (!is_longer) wanted.seq_len = 0;
  if (!is_scaled) wanted.rope_scaling.reset();
  stages.push_back(std::move(wanted));
  for (const DataStage& stage : after.data.stages) {
    if (stage.from_step > step) stages.push_back(stage);
  }
  const bool keeps_length = before.training.seq_len == after.training.seq_len;
  return say(keeps_length ? "" : say("  [training] seq_len = ", to_toml(Slot(&seq_len)), "\n"),
             "  [data] train = ", to_toml(Slot(&train)),
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

std::string verify_data(const RunConfig& config, const Team& team, const World& world) {
  const double start = seconds_now();
  std::uint64_t bytes = 0;
  std::string unknown;
  team.together([&] {
    if (world.local_rank() != 0) return;
    std::set<std::filesystem::path> paths;
    for (const DataSource& source : sources_of(config.data)) paths.insert(source.path);
    for (const std::filesystem::path& path : paths) {
      if (const auto verified = data::verify_files(path)) {
        bytes += *verified;
      } else {
        unknown += (unknown.empty() ? "" : ", ") + path.string();
      }
    }
  });
  std::string result = fmt::format("token files: {} match their hashes, read in {:.1f} s",
                                   human_bytes(bytes), seconds_now() - start);
  if (!unknown.empty()) result += "; no hashes recorded for " + unknown;
  return result;
}

void check_tokenizer(const RunConfig& config) {
  const std::string& name = config.data.tokenizer;
  if (name.empty()) return;
  std::error_code why;
  if (name != "bytes" && !std::filesystem::exists(name, why)) {
    throw on_all_ranks(ConfigError(
        say("data.tokenizer = \"", name, "\": no such file; correct the path or remove the key")));
  }
  std::unique_ptr<data::Tokenizer> tokenizer;
  for (const DataSource& source : sources_of(config.data)) {
    const auto sidecar = sidecar_of(source);
    if (!sidecar || sidecar->tokenizer_hash.empty()) continue;
    if (!tokenizer) tokenizer = data::open_tokenizer(name);
    if (tokenizer->hash() == sidecar->tokenizer_hash) continue;
    const bool has_path = !sidecar->tokenizer_path.empty();
    throw DataError(say(
        "data.tokenizer = \"", name, "\" (hash ", tokenizer->hash(),
        ") did not make the token files ", source.path.string(), ", which were made by ",
        has_path ? sidecar->tokenizer_path : sidecar->tokenizer, " (hash ", sidecar->tokenizer_hash,
        "); set data.tokenizer to that one, or tokenize the text again with this one"));
  }
}

StageChange stage_change(const RunConfig& before, const RunConfig& after, std::uint64_t position) {
  StageChange change;
  const bool same = before.data.train == after.data.train &&
                    before.data.stages == after.data.stages &&
                    before.training.seq_len == after.training.seq_len;
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
    change.advice += say(" keep the data of the samples so far:\n",
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
