#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/config/batch_size.h"
#include "trainer/engine/lr_schedule.h"
#include "trainer/engine/matrix_peak.h"
#include "trainer/engine/step_plan.h"
#include "trainer/loop/step_batch.h"
#include "trainer/loop/train_run.h"
#include "trainer/telemetry/clock.h"

namespace trireme {

using ledger::Phase;

void TrainRun::step() {
  const double start = seconds_now();
  const std::int64_t number = progress_.step + 1;
  ledger_.set_step(number);
  ledger_.enter(Phase::kData);
  const double rate =
      learning_rate(config_.lr_scheduler, config_.optimizer.lr, number, total_steps_);
  if (trace_) trace_->begin_step(number, stream_);
  ++attempts_;
  const Engine::StepResult result = train(rate, number);
  ledger_.enter(Phase::kReport);
  const double seconds = seconds_now() - start + std::exchange(logging_seconds_, 0);
  const StepTrace::Shares traced = trace_ ? trace_->end_step() : StepTrace::Shares{};
  if (!result.applied) {
    if (scaler_.answers(result.loss, result.grad_norm)) {
      answer_overflow(number);
    } else {
      answer_bad_step(result, number);
    }
    if (trace_ && trace_->done()) end_trace();
    return agree();
  }
  guard_.accept(number, result.loss, result.grad_norm);
  if (weight_drill_) weight_drill_->strike(stream_, engine_.params(), team_.rank(), number);
  LedgerStep taken = ledger_step(rate, result);
  attempts_ = 0;
  progress_.step = number;
  progress_.samples += static_cast<std::uint64_t>(taken.sequences);
  progress_.tokens += taken.tokens;
  progress_.loss = result.loss;
  progress_.grad_norm = result.grad_norm;
  require_plan_holds();
  agree();
  taken.products_chosen = agreed_.chose_gemms;
  check_itself(result);

  const double share = static_cast<double>(taken.sequences) /
                       static_cast<double>(config_.training.global_batch_size);
  const double peak = matrix_peak(seconds, share) * seconds * team_.size();
  StepMetrics metrics{.step = number,
                      .tokens = progress_.tokens,
                      .loss = result.loss,
                      .grad_norm = result.grad_norm,
                      .lr = rate,
                      .step_seconds = seconds,
                      .tokens_per_second = static_cast<double>(taken.tokens) / seconds,
                      .mfu = share * flops_.useful / peak,
                      .hfu = share * flops_.issued / peak,
                      .memory_peak_bytes = agreed_.memory_peak_bytes,
                      .process_peak_bytes = agreed_.process_peak_bytes,
                      .validation_loss = {},
                      .validation_bits_per_byte = {},
                      .more = {}};
  if (!config_.training.rampup_batch_size.empty()) {
    metrics.more.emplace_back("sequences", static_cast<double>(taken.sequences));
  }
  // g++ 12 doubts *bubble.
  if (traced.bubble) metrics.more.emplace_back("bubble", traced.bubble.value_or(0));
  if (traced.hidden) metrics.more.emplace_back("hidden_communication", traced.hidden.value_or(0));
  if (scaler_.scales()) {
    metrics.more.emplace_back("loss_scale", scaler_.scale());
    metrics.more.emplace_back("overflows", static_cast<double>(scaler_.overflows()));
    scaler_.accept();
  }
  if (guard_.skips() > 0) metrics.more.emplace_back("skips", static_cast<double>(guard_.skips()));
  if (guard_.rollbacks() > 0)
    metrics.more.emplace_back("rollbacks", static_cast<double>(guard_.rollbacks()));
  if (trace_ && trace_->done()) end_trace();
  evaluations_.after_step({engine_, groups_, log_}, metrics);
  ledger_.enter(Phase::kReport);
  if (agreed_.chose_gemms) share_gemm_choices();  // before anything tells of the step
  const double told = seconds_now();
  log_.step(taken, metrics);
  look_for_cores(number);
  logging_seconds_ = seconds_now() - told;
}

void TrainRun::look_for_cores(std::int64_t step) {
  if (!team_.leads() || stream_.on_cuda() || step % config_.metrics.log_freq != 0) return;
  const auto share = core_wait_.look(seconds_now(), seconds_without_core());
  if (!share) return;
  log_.warn(step, say("other processes take this run's cores: its threads waited ",
                      std::lround(100 * *share), " % of the last seconds for one; stop them, or ",
                      threads_ > 1 ? "set job.threads to the number of cores that are free"
                                   : "start fewer ranks"));
}

void TrainRun::check_itself(const Engine::StepResult& result) {
  if (self_check_ && resumption_.from()) {
    self_check_->compare({.step = progress_.step,
                          .taken = {.loss = result.loss,
                                    .grad_norm = result.grad_norm,
                                    .skips = guard_.skips(),
                                    .rollbacks = guard_.rollbacks()},
                          .products_chosen = agreed_.chose_gemms,
                          .norm_compares = !engine_.model().compression().has_residuals()},
                         config_.training.dtype, log_);
  }
  self_check_.reset();
}

Engine::StepResult TrainRun::train(double rate, std::int64_t number) {
  const auto part = [&](const char* name, const auto& work) {
    if (!trace_) return work();
    const StepTrace::Part traced(*trace_, name);
    return work();
  };
  engine_.take_micro_batches(microbatches_of_step(config_, number));
  const Filled filled = part("data", [&] {
    return fill_step(engine_, groups_, train_data_, progress_.samples, UINT64_MAX,
                     progress_.left_out);
  });
  batch_hash_ = filled.hash;
  if (filled.valid == 0)
    throw on_all_ranks(DataError(say("step ", number, " has no token to predict")));
  engine_.scale_loss(scaler_.scale());
  part("gradients", [&] { engine_.queue_gradients(filled.valid, number); });
  if (drill_) drill_->strike(stream_, engine_.params(), team_.rank(), number);
  // On a device the loss is waited for only where the limit depends on it.
  const bool waits = guard_.needs_loss() || !stream_.on_cuda();
  const double limit = waits ? guard_.norm_limit(engine_.loss()) : Engine::kNoLimit;
  return part("update", [&] {
    engine_.queue_update(rate, number, limit);
    return engine_.result();
  });
}

// A step faster than the peak means that others used the cores while it was measured.
double TrainRun::matrix_peak(double seconds, double share) {
  constexpr int kMostAgain = 5;
  const double issued = share * (plan_.issued.matmul + plan_.issued.attention_causal);
  if (issued > matrix_peak_ * seconds && matrix_peak_measured_again_ < kMostAgain) {
    ++matrix_peak_measured_again_;
    matrix_peak_ = std::max(matrix_peak_, measured_matrix_peak(spec_.compute, stream_.device()));
  }
  return std::max(matrix_peak_, issued / seconds);
}

void TrainRun::require_plan_holds() const {
  const MemoryPlan actual = arenas_.peaks();
  if (actual == plan_.memory) return;
  throw Error("the memory plan does not hold: " + differences(plan_.memory, actual));
}

}  // namespace trireme
