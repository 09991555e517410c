#include "trainer/loop/trainer.h"

#include "trainer/config/batch_size.h"
#include "trainer/engine/step_plan.h"
#include "trainer/telemetry/clock.h"

namespace trireme {

using flight::Phase;

StepOutcome Trainer::step(TrainState& state) {
  const double start = seconds_now();
  const RunConfig& config = run_.config();
  const std::int64_t number = state.step + 1;
  run_.recorder().set_step(number);
  run_.recorder().enter(Phase::kData);
  trace_.begin_step(number);
  const std::int64_t sequences = sequences_of_step(config.training, number);
  const data::SampleRange samples = state.next(static_cast<std::uint64_t>(sequences));
  StepOutcome outcome{
      .step = number,
      .attempt = ++state.attempts,
      .samples = samples,
      .left_out = state.left_out.inside({state.end(), samples.end}).ranges(),
      .sequences = sequences,
      .tokens = sequences * run_.stage().length.seq_len,
      .hash = 0,
      .lr = learning_rate(config.lr_scheduler, config.optimizer.lr, number, run_.total_steps),
      .loss_scale = recovery_.scaler.scale(),
      .result = {},
      .traced = {},
      .seconds = 0};
  const Filled filled = trace_.part("data", [&] { return fill_batch(state, number); });
  outcome.hash = filled.hash;
  outcome.result = train(outcome, filled.valid);
  run_.recorder().enter(Phase::kReport);
  outcome.seconds = seconds_now() - start;
  outcome.traced = trace_.end_step();
  if (!outcome.result.applied) return outcome;
  if (injections_.weight) {
    injections_.weight->apply(run_.stream, run_.engine().model().params(), run_.team.rank(),
                              number);
  }
  require_plan_holds();
  return outcome;
}

Filled Trainer::fill_batch(const TrainState& state, std::int64_t step) {
  run_.engine().take_micro_batches(micro_batches_of_step(run_.config(), step));
  const Filled filled = fill_step(run_.engine(), run_.groups, run_.train_data, state.samples,
                                  UINT64_MAX, state.left_out);
  if (filled.valid > 0) return filled;
  throw on_all_ranks(DataError(say("step ", step, " has no token to predict")));
}

Engine::StepResult Trainer::train(const StepOutcome& outcome, std::int64_t valid_tokens) {
  Engine& engine = run_.engine();
  engine.scale_loss(outcome.loss_scale);
  trace_.part("gradients", [&] { engine.queue_gradients(valid_tokens, outcome.step); });
  if (injections_.gradient) {
    injections_.gradient->apply(run_.stream, engine.model().params(), run_.team.rank(),
                                outcome.step);
  }
  // On a GPU, wait for the loss only if the limit depends on it.
  const bool waits = recovery_.guard.needs_loss() || !run_.stream.on_cuda();
  const double limit =
      waits ? recovery_.guard.norm_limit(engine.loss(), engine.expert_load()) : Engine::kNoLimit;
  return trace_.part("update", [&] {
    engine.queue_update(outcome.lr, outcome.step, limit);
    return engine.result();
  });
}

void Trainer::require_plan_holds() const {
  const MemoryPlan actual = run_.arenas.peaks();
  if (actual == run_.stage().plan.memory) return;
  throw Error("the memory plan does not hold: " + differences(run_.stage().plan.memory, actual));
}

}  // namespace trireme
