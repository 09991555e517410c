#include <fmt/format.h>

#include <cmath>

#include "data/batch_documents.h"
#include "trainer/config/batch_size.h"
#include "trainer/loop/train_run.h"

namespace trireme {
namespace {

constexpr std::size_t kMostDocuments = 256;  // in one event

using Json = EventsLog::Details;

Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

Json range_json(data::SampleRange range) {
  return Json::array({range.first, range.end});
}

std::string words(const StepGuard::Decision& decision, const Engine::StepResult& result) {
  // A NaN's sign means nothing.
  const double loss = std::isnan(result.loss) ? std::abs(result.loss) : result.loss;
  const double norm = std::abs(result.grad_norm);
  if (!decision.spike) {
    return fmt::format("loss {} and gradient norm {} are not both finite", loss, norm);
  }
  return fmt::format(
      "loss {} and gradient norm {} spike, {:.1f} and {:.1f} deviations above the "
      "good steps before",
      loss, norm, decision.loss_zscore.value_or(0), decision.norm_zscore.value_or(0));
}

}  // namespace

void TrainRun::answer_overflow(std::int64_t number) {
  const double before = scaler_.scale();
  scaler_.halve();
  log_.note(
      fmt::format("step {}: gradients overflow with the loss scaled by {}: tried again with {}",
                  number, before, scaler_.scale()));
  log_.event("overflow", number, {{"loss_scale", before}, {"next_loss_scale", scaler_.scale()}});
}

void TrainRun::answer_bad_step(const Engine::StepResult& result, std::int64_t number) {
  finish_save();  // what it saves is good, and may be what the run goes back to
  const StepGuard::Decision decision = guard_.decide(number, result.loss, result.grad_norm);
  const data::SampleRange samples =
      progress_.next(static_cast<std::uint64_t>(sequences_of_step(config_.training, number)));
  Json details = describe_bad_step(decision, result);
  details["samples"] = range_json(samples);
  const std::string what = fmt::format("step {}: {}", number, words(decision, result));
  if (decision.action == StepGuard::Action::kSkip) {
    progress_.left_out.add(samples);
    log_.note(
        fmt::format("{}: samples {} to {} are left out", what, samples.first, samples.end - 1));
    log_.event("skip", number, details);
  } else if (decision.action == StepGuard::Action::kRollBack) {
    roll_back(samples, details);
    log_.note(fmt::format("{}: back to step {}, without the samples before {}", what,
                          progress_.step, samples.end));
    log_.event("rollback", number, details);
  } else {
    details["text"] = "diverged";
    log_.event("failure", number, details);
    throw on_all_ranks(DivergedError(fmt::format(
        "{}{}; {} (lower optimizer.lr, warm up longer, look at the data with 'trireme data check', "
        "or see training.on_nonfinite and on_spike)",
        what,
        decision.tired ? fmt::format(", after training.max_skips = {} skips and rollbacks",
                                     config_.training.max_skips)
                       : "",
        committed_ < 0 ? std::string("there is no checkpoint")
                       : fmt::format("the newest checkpoint is that of step {}", committed_))));
  }
}

EventsLog::Details TrainRun::describe_bad_step(const StepGuard::Decision& decision,
                                               const Engine::StepResult& result) const {
  Json details{{"reason", decision.spike ? "spike" : "not finite"},
               {"loss", result.loss},
               {"grad_norm", result.grad_norm},
               {"loss_zscore", number_or_null(decision.loss_zscore)},
               {"grad_norm_zscore", number_or_null(decision.norm_zscore)}};
  if (!team_.leads()) return details;
  const data::DocumentList list = data::batch_documents(
      train_data_, progress_.left_out, progress_.samples,
      static_cast<std::uint64_t>(sequences_of_step(config_.training, progress_.step + 1)),
      kMostDocuments);
  Json documents = Json::array();
  for (const data::DocumentId& id : list.documents) {
    documents.push_back(Json::array({id.source, id.document}));
  }
  details["documents"] = documents;
  details["documents_complete"] = list.complete;
  return details;
}

// To the newest good checkpoint; all samples from there to the end of the bad batch are left
// out, also those that were good the first time.
void TrainRun::roll_back(data::SampleRange bad, EventsLog::Details& details) {
  ledger_.enter(ledger::Phase::kLoad);
  const auto from = resumption_.go_back(progress_, guard_, scaler_);
  if (!from) {
    throw on_all_ranks(DivergedError(
        say("step ", progress_.step + 1, " has no checkpoint to roll back to: ", commit_failure_)));
  }
  committed_ = from->step;
  replicas_checked_ = -1;  // the steps that follow are taken anew
  const data::SampleRange left_out{progress_.position(), bad.end};
  progress_.left_out.add(left_out);
  attempts_ = 0;
  log_.open(folder_.path, ledger_begin("rollback"), config_.metrics.enable_tensorboard);
  tell_rejected(log_, *from, progress_.step);
  details["from"] = from->folder.string();
  details["to_step"] = progress_.step;
  details["left_out"] = range_json(left_out);
}

}  // namespace trireme
