#include "trainer/loop/resumption.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/config/difference.h"
#include "trainer/config/reader.h"
#include "trainer/loop/allowed_changes.h"
#include "trainer/loop/data_checks.h"

namespace trireme {
namespace {

RunConfig config_of(const checkpoint::Loaded& from, const std::filesystem::path& run) {
  const std::string name = (from.folder / "manifest.json").string() + " (config)";
  return read_config({name, from.manifest.config, run}, {}).config;
}

// The mismatch in terms of the config: "num_hidden_layers: 2 -> 3" says more than tensor names.
MismatchError in_keys(const MismatchError& error, const std::vector<checkpoint::Summary>& found,
                      const RunConfig& config, const std::filesystem::path& run) {
  const std::string& how = config.checkpoint.resume;
  for (const checkpoint::Summary& one : found) {
    if (how != "auto" && std::to_string(one.step) != how) continue;
    if (!one.manifest) continue;
    const checkpoint::Loaded from{
        .step = one.step, .folder = one.folder, .manifest = *one.manifest, .rejected = {}};
    std::vector<Change> changes;
    for (const Change& change : difference(config_of(from, run), config)) {
      const bool shapes_state =
          change.key.starts_with("model.") || change.key.starts_with("optimizer.");
      if (shapes_state && change.effect == Effect::kNumerics) changes.push_back(change);
    }
    if (changes.empty()) break;
    return MismatchError(
        say("cannot continue from ", from.folder.string(),
            ": it holds the state of a different model or optimizer:", lines_of(changes),
            "\nUndo the change, or give the new run another job.dump_folder."));
  }
  return error;
}

}  // namespace

TrainState Resumption::begin(RecoveryState& recovery) {
  checkpoint::Store& store = run_.folder.store;
  const std::string& how = run_.config().checkpoint.resume;
  const std::vector<checkpoint::Piece> pieces = state_pieces(run_.engine());
  if (how == "none") {
    if (const auto found = store.list(); !found.empty()) {
      throw CheckpointError(say(run_.folder.path.string(),
                                " holds checkpoints, the newest of step ", found.front().step,
                                ", and checkpoint.resume is \"none\": give the new run another "
                                "job.dump_folder, or resume"));
    }
  }
  try {
    if (how == "auto") from_ = memory_.load_newest(pieces);
    if (how != "auto" && how != "none")
      from_ = store.load_step(std::stoll(how), pieces, kMatchOfState);
  } catch (const MismatchError& error) {
    throw on_all_ranks(in_keys(error, store.list(), run_.config(), run_.folder.path));
  }
  if (how != "auto") memory_.forget();
  if (!from_) return start();
  const RunConfig before = config_before(*from_);
  require_same_data(*from_, before);
  require_same_numerics(*from_, before);
  TrainState state = resume_from(*from_);
  recovery.read(*from_, true);
  return state;
}

TrainState Resumption::start() {
  if (run_.config().checkpoint.initial_load_path.empty()) {
    run_.engine().model().params().initialize(static_cast<std::uint64_t>(run_.config().job.seed));
  } else {
    weights_from_ = load_initial_weights(run_.config(), run_.engine(), *run_.groups.all);
  }
  run_.engine().model().optimizer().start_average(run_.engine().stream());
  not_comparable_ = "the run starts";
  TrainState state;
  state.left_out = data::LeftOut(run_.config().data.skip);
  return state;
}

std::optional<checkpoint::Loaded> Resumption::roll_back(TrainState& state,
                                                        RecoveryState& recovery) {
  auto from = run_.folder.store.load_newest(state_pieces(run_.engine()), kMatchOfState);
  if (!from) return from;
  memory_.forget();
  state = resume_from(*from);
  recovery.read(*from, false);
  return from;
}

// After its pieces have been read.
TrainState Resumption::resume_from(const checkpoint::Loaded& from) {
  Engine& engine = run_.engine();
  engine.host_state().upload(engine.stream());
  average_starts_ = run_.config().training.ema > 0 && !has_average(from.manifest);
  if (average_starts_) engine.model().optimizer().start_average(engine.stream());
  require_weights(from, engine, *run_.groups.all);
  TrainState state = read_state(from);
  for (const data::SampleRange& range : run_.config().data.skip) state.left_out.add(range);
  engine.model().publish_masters(engine.stream(), state.step);
  return state;
}

// The checkpoint's config, with the current paths of its token files if they hold the same tokens.
RunConfig Resumption::config_before(const checkpoint::Loaded& from) const {
  RunConfig before = config_of(from, run_.folder.path);
  const bool same = run_.train_data.agrees(data_fingerprint(from), read_state(from).position());
  return same ? with_moved_data(std::move(before), run_.config()) : before;
}

// Changed data would give the sample counter another meaning; data not yet reached may change.
void Resumption::require_same_data(const checkpoint::Loaded& from, const RunConfig& before) {
  const TrainState state = read_state(from);
  const StageChange stages = stage_change(before, run_.config(), state.position());
  std::string refused;
  for (const Change& change : difference(before, run_.config())) {
    if (change.effect != Effect::kData || change.key == "data.skip") continue;
    if (change.key == "data.stages" && stages.allowed) continue;
    refused += say("\n  ", change.key, ": ", change.before, " -> ", change.after);
  }
  if (refused.empty() && !run_.train_data.agrees(data_fingerprint(from), state.position())) {
    refused = "\n  the training token files themselves (names, sizes or contents)";
  }
  data::LeftOut wanted = state.left_out;
  for (const data::SampleRange& range : run_.config().data.skip) wanted.add(range);
  if (refused.empty() && wanted.before(state.position()) != state.left_out) {
    refused = say("\n  data.skip names samples below ", state.position(),
                  ", which it has been trained on");
  }
  if (refused.empty()) {
    if (stages.allowed) not_comparable_ = "checkpoint.allow_changes has data.stages";
    return;
  }
  throw CheckpointError(say(
      "cannot continue from ", from.folder.string(),
      ": the training data have changed, so that the run's position in "
      "them is no longer valid:",
      refused, "\nUndo the change, or give the new run another job.dump_folder.", stages.advice));
}

void Resumption::require_same_numerics(const checkpoint::Loaded& from, const RunConfig& before) {
  const NumericChanges changes = numeric_changes(before, run_.config(), from.step);
  if (!changes.refused.empty()) {
    throw CheckpointError(
        say("cannot continue from ", from.folder.string(),
            ": its steps were computed differently:", refusal_text(changes, run_.config())));
  }
  if (allows_all(run_.config())) {
    not_comparable_ = "checkpoint.allow_changes has \"all\"";
  } else if (!changes.allowed.empty()) {
    not_comparable_ = "checkpoint.allow_changes has " + changes.allowed.front().key;
  }
}

void Resumption::report() const {
  RunLog& log = run_.log;
  if (weights_from_) report_rejected(log, weights_from_->from, 0);
  if (!from_) return;
  report_rejected(log, *from_, from_->step);
  const RunConfig before = config_before(*from_);
  for (const Change& change : difference(config_of(*from_, run_.folder.path), run_.config())) {
    const std::vector<Change> left = difference(before, run_.config());
    const bool moved = std::none_of(left.begin(), left.end(),
                                    [&](const Change& one) { return one.key == change.key; });
    const std::string text =
        fmt::format("{}: {} -> {} ({})", change.key, change.before, change.after,
                    moved ? "moved, with the same tokens" : effect_text(change.effect));
    log.note("config changed: " + text);
    log.event("config_changed", from_->step, {{"text", text}});
  }
  if (average_starts_) {
    log.note(say("the average of the weights starts from those of step ", from_->step));
  }
}

void report_rejected(RunLog& log, const checkpoint::Loaded& from, std::int64_t step) {
  for (const std::string& why : from.rejected) {
    log.note("checkpoint rejected: " + why);
    log.event("checkpoint_rejected", step, {{"why", why}});
  }
}

}  // namespace trireme
