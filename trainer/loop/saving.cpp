#include <fmt/format.h>

#include "trainer/config/effective.h"
#include "trainer/engine/fit.h"
#include "trainer/engine/weights_hash.h"
#include "trainer/loop/run_description.h"
#include "trainer/loop/train_run.h"
#include "trainer/telemetry/clock.h"
#include "trainer/telemetry/human.h"

namespace trireme {
namespace {

using ledger::Phase;

std::optional<checkpoint::Retention> retention(const CheckpointConfig& how) {
  if (how.keep_latest_k == 0) return std::nullopt;
  return checkpoint::Retention{.keep_latest = static_cast<int>(how.keep_latest_k),
                               .keep_every = how.keep_every};
}

}  // namespace

std::unique_ptr<checkpoint::BackgroundWriter> TrainRun::make_writer() const {
  if (!config_.checkpoint.async) return nullptr;
  // Pieces begin at blocks of the disk; address space is free.
  return std::make_unique<checkpoint::BackgroundWriter>(2 * snapshot_bytes(plan_.memory) +
                                                        (std::size_t{1} << 30));
}

void TrainRun::prepare_saves() {
  if (writer_) {
    saver_.emplace(folder_.store, *writer_, state_pieces(engine_), retention(config_.checkpoint));
  }
}

checkpoint::Snapshot TrainRun::snapshot() {
  checkpoint::Snapshot snapshot;
  write_progress(progress_, train_data_, snapshot);
  guard_.write(snapshot.scalars);
  scaler_.write(snapshot.scalars);
  if (engine_.params().masters().dtype == DType::kF32) {
    engine_.host_state().download(stream_);
    snapshot.add_digests = [](checkpoint::Manifest& manifest) {
      manifest.digests["weights"] = weights_hash_text(weights_hash(manifest));
    };
  } else {
    snapshot.digests["weights"] = weights_hash_text(engine_, *groups_.all);
  }
  snapshot.config_toml = effective_toml(loaded_);
  snapshot.tokenizer = tokenizer_hash_;
  snapshot.layout = layout_of(config_.parallelism);
  snapshot.versions = {{"trireme", TRIREME_VERSION}};
  // A resume is never ahead of what the disk tells of the steps.
  for (const char* file : {"ledger.jsonl", "metrics.jsonl", "events.jsonl"}) {
    snapshot.after_files.push_back(folder_.path / file);
  }
  return snapshot;
}

bool TrainRun::save() {
  require_equal_replicas();
  if (!saver_) return commit_now();
  double start = seconds_now();
  if (saver_->busy()) {
    const std::int64_t before = save_.step;
    finish_save();
    log_.warn(progress_.step,
              fmt::format("training stood for {} until the checkpoint of step {} was on disk: "
                          "checkpoint.interval is shorter than a save takes",
                          human_duration(seconds_now() - start), before));
    start = seconds_now();  // the time until here was the other's
  }
  ledger_.enter(Phase::kSnapshot);
  try {
    saver_->begin(snapshot());
  } catch (const Error& error) {
    return tell_failed(progress_.step, error);
  }
  save_ = {progress_.step, start, seconds_now() - start};
  return true;
}

void TrainRun::follow_save() {
  if (!saver_ || !saver_->busy() || agreed_.saving) return;
  ledger_.enter(Phase::kSave);
  const double start = seconds_now();
  try {
    const auto saved = saver_->advance();
    save_.stopped += seconds_now() - start;
    if (!saved) return;
    tell_committed(saved->committed, seconds_now() - save_.start, save_.stopped);
    tell_removed(saved->removed);
    if (!saved->not_removed.empty()) {
      log_.warn(progress_.step, say("old checkpoints were not removed: ", saved->not_removed));
    }
  } catch (const Error& error) {
    tell_failed(save_.step, error);
  }
}

bool TrainRun::finish_save() {
  ledger_.enter(Phase::kSave);
  agreed_.saving = false;  // waited for below
  const std::int64_t step = save_.step;
  while (saver_ && saver_->busy()) follow_save();
  return committed_ == step;
}

void TrainRun::save_to_memory() {
  if (!memory_.due(progress_.step) || committed_ == progress_.step) return;
  ledger_.enter(Phase::kSnapshot);
  if (memory_.outlives_a_node()) log_.sync();
  memory_.save([this] { return snapshot(); });
}

bool TrainRun::commit() {
  require_equal_replicas();
  if (!saver_) return commit_now();
  if (!saver_->busy() || save_.step != progress_.step) {
    if (!save()) return false;
  }
  return finish_save();
}

bool TrainRun::commit_now() {
  const double start = seconds_now();
  ledger_.enter(Phase::kSave);
  checkpoint::Committed committed;
  try {
    checkpoint::Snapshot state = snapshot();
    state.pieces = state_pieces(engine_);
    committed = folder_.store.commit(state);
  } catch (const Error& error) {
    return tell_failed(progress_.step, error);
  }
  const double seconds = seconds_now() - start;
  tell_committed(committed, seconds, seconds);
  const auto keep = retention(config_.checkpoint);
  if (!team_.leads() || !keep) return true;
  try {
    tell_removed(folder_.store.prune(*keep));
  } catch (const Error& error) {
    log_.warn(progress_.step, say("old checkpoints were not removed: ", error.what()));
  }
  return true;
}

void TrainRun::tell_committed(const checkpoint::Committed& committed, double seconds,
                              double stopped) {
  committed_ = committed.step;
  log_.note(fmt::format("checkpoint of step {} committed, {} in {}", committed.step,
                        human_bytes(committed.bytes), human_duration(seconds)));
  log_.event("checkpoint", committed.step,
             {{"path", committed.folder.string()},
              {"bytes", committed.bytes},
              {"seconds", seconds},
              {"write_seconds", committed.write_seconds},
              {"stopped_seconds", stopped}});
}

bool TrainRun::tell_failed(std::int64_t step, const Error& error) {
  commit_failure_ = error.what();
  log_.warn(progress_.step,
            fmt::format("the checkpoint of step {} was not written: {}", step, error.what()));
  return false;
}

void TrainRun::tell_removed(const std::vector<std::int64_t>& steps) {
  for (const std::int64_t step : steps) {
    log_.event("checkpoint_removed", progress_.step, {{"path", say("step ", step)}});
  }
}

void TrainRun::throw_uncommitted(const std::string& what) const {
  const std::string newest =
      committed_ < 0 ? "there is no older one" : say("the newest is that of step ", committed_);
  throw on_all_ranks(EnvironmentError(say(
      what, ", but the checkpoint of its last step, ", progress_.step, ", could not be written (",
      newest, "): ", commit_failure_, "\nMend that and start the run again")));
}

}  // namespace trireme
