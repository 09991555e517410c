#include <fmt/format.h>

#include "trainer/loop/train_run.h"
#include "trainer/telemetry/clock.h"
#include "trainer/telemetry/human.h"

namespace trireme {

void TrainRun::prepare_replica_check() {
  const std::int64_t interval = config_.elastic.replica_check_interval;
  if (interval == 0) return;
  replica_check_.emplace(engine_, groups_, arenas_.weights_in_common);
  const std::uint64_t bytes = replica_check_->bytes();
  log_.note(bytes > 0 ? fmt::format("replicas are compared every {} steps and before each "
                                    "checkpoint: of rank 0 {}",
                                    interval, human_bytes(bytes))
                      : std::string("warning: no replicas to compare: there is one copy of "
                                    "everything that rank 0 holds"));
}

// What is written to disk has been compared, so that a run that is started again after a
// difference goes on from what all agreed on.
void TrainRun::require_equal_replicas() {
  if (!replica_check_ || replicas_checked_ == progress_.step) return;
  ledger_.enter(ledger::Phase::kReport);
  const double start = seconds_now();
  const auto verdict = replica_check_->find();
  replica_check_seconds_ += seconds_now() - start;
  ++replica_checks_;
  replicas_checked_ = progress_.step;
  if (!verdict) return;
  if (saver_ && saver_->busy()) finish_save();  // of an earlier step, which was compared
  const std::string what =
      fmt::format("after step {} {}", progress_.step, text_of(*verdict, world_.hosts()));
  std::vector<std::string> hosts;
  for (const int rank : verdict->ranks) {
    hosts.push_back(world_.hosts()[static_cast<std::size_t>(rank)]);
  }
  log_.event("replicas_differ", progress_.step,
             {{"ranks", verdict->ranks},
              {"by_majority", verdict->by_majority},
              {"tensors", verdict->tensors}});
  log_.event("failure", progress_.step,
             {{"text", what},
              {"ranks", verdict->ranks},
              {"hosts", hosts},
              {"health", "differs"},
              {"by_majority", verdict->by_majority},
              {"in_step", progress_.step}});
  memory_.forget();
  throw on_all_ranks(PeerError(fmt::format(
      "{}.\nA machine computes or remembers wrongly (see 'trireme doctor'). Start the run again, "
      "better without it: it goes on from {}",
      what,
      committed_ < 0 ? std::string("its beginning")
                     : fmt::format("the checkpoint of step {}", committed_))));
}

void TrainRun::end_replica_check() {
  if (replica_checks_ == 0) return;
  log_.event("replica_checks", progress_.step,
             {{"count", replica_checks_},
              {"mean_seconds", replica_check_seconds_ / static_cast<double>(replica_checks_)},
              {"bytes", replica_check_->bytes()}});
}

}  // namespace trireme
