#include "trainer/loop/checkpointer.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/hex.h"
#include "model/base/human.h"
#include "trainer/config/effective.h"
#include "trainer/engine/weights_hash.h"
#include "trainer/loop/run_description.h"
#include "trainer/loop/trained_model.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

using flight::Phase;

std::optional<checkpoint::Retention> retention(const CheckpointConfig& config) {
  if (config.keep_latest_k == 0) return std::nullopt;
  return checkpoint::Retention{.keep_latest = static_cast<int>(config.keep_latest_k),
                               .keep_every = config.keep_every};
}

}  // namespace

Checkpointer::Checkpointer(RunContext& run, const RecoveryState& recovery, MemoryTier& memory,
                           ReplicaComparison& replicas)
    : run_(run),
      recovery_(recovery),
      memory_(memory),
      replicas_(replicas),
      tokenizer_hash_(tokenizer_hash_of(run.config())) {}

void Checkpointer::start(const std::optional<checkpoint::Loaded>& from) {
  if (from) {
    committed_ = from->manifest.in_memory() ? from->manifest.parent.value_or(-1) : from->step;
  }
  saver_.emplace(run_.folder.store, state_pieces(run_.engine()), run_.writer.get(),
                 retention(run_.config().checkpoint));
}

void Checkpointer::start_memory(std::int64_t step) {
  memory_.start(state_pieces(run_.engine()), step);
}

void Checkpointer::after_step(const TrainState& state, bool is_writing) {
  const std::int64_t interval = run_.config().checkpoint.interval;
  const bool is_due = interval > 0 && state.step % interval == 0 && state.step > 0;
  if (replicas_.is_due(state.step)) require_equal_replicas(state);
  if (!is_writing) advance_save(state.step);
  if (state.step == run_.total_steps) return;  // committed by the end of the run
  if (is_due && committed_ != state.step) save(state);
  save_to_memory(state);
}

bool Checkpointer::commit(const TrainState& state) {
  if (committed_ == state.step) return true;
  require_equal_replicas(state);
  if (!saver_->busy() || save_.step != state.step) {
    if (!save(state)) return false;
  }
  finish_save(state.step);
  return committed_ == state.step;
}

void Checkpointer::finish_save(std::int64_t step) {
  run_.recorder().enter(Phase::kSave);
  while (saver_ && saver_->busy()) advance_save(step);
}

void Checkpointer::rolled_back_to(std::int64_t step) {
  committed_ = step;
  replicas_.forget_step();
}

void Checkpointer::end(std::int64_t step) {
  replicas_.end(step);
  memory_.end(step);
}

std::string Checkpointer::newest_text() const {
  return say("newest checkpoint: ", committed_ < 0 ? "none" : say("step ", committed_));
}

std::optional<std::size_t> Checkpointer::snapshot_bytes() const {
  return run_.writer ? std::optional(saver_->bytes()) : std::nullopt;
}

void Checkpointer::throw_uncommitted(const std::string& what, std::int64_t step) const {
  throw on_all_ranks(EnvironmentError(say(what, ", but the checkpoint of its last step, ", step,
                                          ", could not be written (", newest_text(),
                                          "): ", failure_, "\nFix this and start the run again")));
}

checkpoint::Snapshot Checkpointer::snapshot(const TrainState& state) {
  checkpoint::Snapshot snapshot;
  checkpoint::Manifest& manifest = snapshot.manifest;
  write_state(state, run_.train_data, manifest);
  recovery_.write(manifest.scalars);
  Engine& engine = run_.engine();
  if (engine.model().params().masters().dtype == DType::kF32) {
    engine.host_state().download(run_.stream);
    snapshot.add_digests = [](checkpoint::Manifest& complete) {
      complete.digests["weights"] = hex(weights_hash(complete));
    };
  } else {
    manifest.digests["weights"] = weights_hash_text(engine, *run_.groups.all);
  }
  manifest.config = effective_toml(run_.loaded);
  manifest.tokenizer = tokenizer_hash_;
  manifest.layout = layout_of(run_.config().parallelism);
  manifest.versions = {{"trireme", TRIREME_VERSION}};
  // The logs of these steps reach the disk before the checkpoint does.
  for (const char* file : {"ledger.jsonl", "metrics.jsonl", "events.jsonl"}) {
    snapshot.after_files.push_back(run_.folder.path / file);
  }
  return snapshot;
}

void Checkpointer::require_equal_replicas(const TrainState& state) {
  const auto verdict = replicas_.compare(state.step);
  if (!verdict) return;
  // Of an earlier step, whose replicas were equal.
  if (saver_ && saver_->busy()) finish_save(state.step);
  memory_.forget();
  replicas_.fail(*verdict, state.step, std::max<std::int64_t>(committed_, 0));
}

bool Checkpointer::save(const TrainState& state) {
  require_equal_replicas(state);
  double start = seconds_now();
  if (saver_->busy()) {
    const std::int64_t before = save_.step;
    finish_save(state.step);
    run_.log.warn(state.step, fmt::format("training blocked {} waiting for checkpoint step {}: "
                                          "checkpoint.interval is shorter than one save",
                                          human_duration(seconds_now() - start), before));
    start = seconds_now();  // what it waited for counts for the save before
  }
  const bool is_async = run_.writer != nullptr;
  run_.recorder().enter(is_async ? Phase::kSnapshot : Phase::kSave);
  try {
    saver_->begin(snapshot(state));
  } catch (const Error& error) {
    return report_failed(state.step, state.step, error);
  }
  save_ = {state.step, start, seconds_now() - start};
  if (!is_async) finish_save(state.step);
  return true;
}

void Checkpointer::advance_save(std::int64_t step) {
  if (!saver_ || !saver_->busy()) return;
  run_.recorder().enter(Phase::kSave);
  const double start = seconds_now();
  try {
    const auto committed = saver_->advance();
    save_.blocked += seconds_now() - start;
    if (!committed) return;
    report_committed(*committed, seconds_now() - save_.start, save_.blocked);
    report_removed(committed->removed, step);
    if (!committed->not_removed.empty()) {
      run_.log.warn(step, say("old checkpoints were not removed: ", committed->not_removed));
    }
  } catch (const Error& error) {
    report_failed(save_.step, step, error);
  }
}

void Checkpointer::save_to_memory(const TrainState& state) {
  if (!memory_.due(state.step) || committed_ == state.step) return;
  run_.recorder().enter(Phase::kSnapshot);
  if (memory_.outlives_a_node()) run_.log.sync();
  memory_.save([&] { return snapshot(state); });
}

void Checkpointer::report_committed(const checkpoint::Committed& committed, double seconds,
                                    double blocked) {
  committed_ = committed.step;
  run_.log.note(fmt::format("checkpoint of step {} committed, {} in {}", committed.step,
                            human_bytes(committed.bytes), human_duration(seconds)));
  run_.log.event("checkpoint", committed.step,
                 {{"path", committed.folder.string()},
                  {"bytes", committed.bytes},
                  {"seconds", seconds},
                  {"write_seconds", committed.write_seconds},
                  {"stopped_seconds", blocked}});
}

bool Checkpointer::report_failed(std::int64_t step, std::int64_t at, const Error& error) {
  failure_ = error.what();
  run_.log.warn(at, fmt::format("the checkpoint of step {} was not written: {}", step, failure_));
  return false;
}

void Checkpointer::report_removed(const std::vector<std::int64_t>& steps, std::int64_t at) {
  for (const std::int64_t step : steps) {
    run_.log.event("checkpoint_removed", at, {{"path", say("step ", step)}});
  }
}

}  // namespace trireme
