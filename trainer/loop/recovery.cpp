#include "trainer/loop/recovery.h"

#include <fmt/format.h>

#include <cmath>

#include "data/batch_documents.h"

namespace trireme {
namespace {

constexpr std::size_t kMaxDocuments = 256;  // in one event

using Json = EventsLog::Details;

Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

Json range_json(data::SampleRange range) {
  return Json::array({range.first, range.end});
}

std::optional<double> load_of(const Engine::StepResult& result) {
  return result.routers ? std::optional(result.routers->max_over_mean()) : std::nullopt;
}

std::string reason_text(const StepGuard::Decision& decision, const Engine::StepResult& result) {
  // Print no sign of a NaN.
  const double loss = std::isnan(result.loss) ? std::abs(result.loss) : result.loss;
  const double norm = std::abs(result.grad_norm);
  if (!decision.spike) {
    return fmt::format("loss {} and gradient norm {} are not both finite", loss, norm);
  }
  if (const std::optional<double> load = load_of(result)) {
    return fmt::format(
        "loss {}, gradient norm {} and load {} of the busiest expert spike: z-scores {:.1f}, "
        "{:.1f} "
        "and {:.1f}",
        loss, norm, *load, decision.loss_zscore.value_or(0), decision.norm_zscore.value_or(0),
        decision.load_zscore.value_or(0));
  }
  return fmt::format("loss {} and gradient norm {} spike: z-scores {:.1f} and {:.1f}", loss, norm,
                     decision.loss_zscore.value_or(0), decision.norm_zscore.value_or(0));
}

}  // namespace

void Recovery::judge(const StepOutcome& outcome, TrainState& state) {
  const Engine::StepResult& result = outcome.result;
  if (result.applied) {
    accept(outcome, state);
  } else if (judged_.scaler.is_overflow(result.loss, result.grad_norm)) {
    halve_loss_scale(outcome);
  } else {
    reject(outcome, state);
  }
}

void Recovery::accept(const StepOutcome& outcome, TrainState& state) {
  const Engine::StepResult& result = outcome.result;
  judged_.guard.accept(outcome.step, result.loss, result.grad_norm, load_of(result));
  judged_.scaler.accept();
  state.attempts = 0;
  state.step = outcome.step;
  state.samples += static_cast<std::uint64_t>(outcome.sequences);
  state.tokens += outcome.tokens;
  state.loss = result.loss;
  state.grad_norm = result.grad_norm;
}

void Recovery::halve_loss_scale(const StepOutcome& outcome) {
  LossScaler& scaler = judged_.scaler;
  const double before = scaler.scale();
  scaler.halve();
  run_.log.note(fmt::format("step {}: gradients overflow at loss scale {}: retrying with {}",
                            outcome.step, before, scaler.scale()));
  run_.log.event("overflow", outcome.step,
                 {{"loss_scale", before}, {"next_loss_scale", scaler.scale()}});
}

void Recovery::reject(const StepOutcome& outcome, TrainState& state) {
  checkpoints_.finish_save(state.step);  // a good state, perhaps the one to roll back to
  const Engine::StepResult& result = outcome.result;
  const StepGuard::Decision decision =
      judged_.guard.decide(outcome.step, result.loss, result.grad_norm, load_of(result));
  Json details = describe(outcome, state, decision);
  const std::string text = fmt::format("step {}: {}", outcome.step, reason_text(decision, result));
  RunLog& log = run_.log;
  if (decision.action == StepGuard::Action::kSkip) {
    state.left_out.add(outcome.samples);
    log.note(fmt::format("{}: skipping samples {} to {}", text, outcome.samples.first,
                         outcome.samples.end - 1));
    log.event("skip", outcome.step, details);
  } else if (decision.action == StepGuard::Action::kRollBack) {
    roll_back(outcome, state, details);
    log.note(fmt::format("{}: rolled back to step {}, skipping the samples before {}", text,
                         state.step, outcome.samples.end));
    log.event("rollback", outcome.step, details);
  } else {
    details["text"] = "diverged";
    log.event("failure", outcome.step, details);
    const std::string limit =
        decision.exhausted ? fmt::format(", after training.max_skips = {} skips and rollbacks",
                                         run_.config().training.max_skips)
                           : "";
    throw on_all_ranks(DivergedError(
        fmt::format("{}{}; {} (lower optimizer.lr, use a longer warmup, inspect the data with "
                    "'trireme data check', or see training.on_nonfinite and on_spike)",
                    text, limit, checkpoints_.newest_text())));
  }
}

EventsLog::Details Recovery::describe(const StepOutcome& outcome, const TrainState& state,
                                      const StepGuard::Decision& decision) const {
  Json details{{"reason", decision.spike ? "spike" : "not finite"},
               {"loss", outcome.result.loss},
               {"grad_norm", outcome.result.grad_norm},
               {"loss_zscore", number_or_null(decision.loss_zscore)},
               {"grad_norm_zscore", number_or_null(decision.norm_zscore)}};
  if (const std::optional<double> load = load_of(outcome.result)) {
    details["expert_load_max_over_mean"] = *load;
    details["expert_load_zscore"] = number_or_null(decision.load_zscore);
  }
  if (run_.leads()) {
    const data::DocumentList list =
        data::batch_documents(run_.train_data, state.left_out, state.samples,
                              static_cast<std::uint64_t>(outcome.sequences), kMaxDocuments);
    Json documents = Json::array();
    for (const data::DocumentId& id : list.documents) {
      documents.push_back(Json::array({id.source, id.document}));
    }
    details["documents"] = documents;
    details["documents_complete"] = list.complete;
  }
  details["samples"] = range_json(outcome.samples);
  return details;
}

// To the newest good checkpoint. All samples from there to the end of the bad batch are left out,
// also those of accepted steps.
void Recovery::roll_back(const StepOutcome& outcome, TrainState& state,
                         EventsLog::Details& details) {
  run_.recorder().enter(flight::Phase::kLoad);
  const auto from = resumption_.roll_back(state, judged_);
  if (!from) {
    throw on_all_ranks(DivergedError(say(
        "step ", outcome.step, " has no checkpoint to roll back to: ", checkpoints_.failure())));
  }
  checkpoints_.rolled_back_to(from->step);
  const data::SampleRange left_out{state.position(), outcome.samples.end};
  state.left_out.add(left_out);
  reporter_.open_log("rollback", state);
  report_rejected(run_.log, *from, state.step);
  details["from"] = from->folder.string();
  details["to_step"] = state.step;
  details["left_out"] = range_json(left_out);
}

}  // namespace trireme
