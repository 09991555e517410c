#include "trainer/loop/replica_comparison.h"

#include <fmt/format.h>

#include "model/base/human.h"
#include "trainer/telemetry/clock.h"

namespace trireme {

void ReplicaComparison::start() {
  const std::int64_t interval = run_.config().elastic.replica_check_interval;
  if (interval == 0) return;
  check_.emplace(run_.engine(), run_.groups, run_.arenas.weights_in_common);
  const std::uint64_t bytes = check_->bytes();
  run_.log.note(bytes > 0 ? fmt::format("replicas are compared every {} steps and before each "
                                        "checkpoint: {} of rank 0",
                                        interval, human_bytes(bytes))
                          : std::string("warning: no replicas to compare: rank 0 holds the only "
                                        "copy of its state"));
}

bool ReplicaComparison::is_due(std::int64_t step) const {
  const std::int64_t interval = run_.config().elastic.replica_check_interval;
  return interval > 0 && step % interval == 0;
}

std::optional<ReplicaVerdict> ReplicaComparison::compare(std::int64_t step) {
  if (!check_ || compared_ == step) return std::nullopt;
  run_.recorder().enter(flight::Phase::kReport);
  const double start = seconds_now();
  auto verdict = check_->find();
  seconds_ += seconds_now() - start;
  ++count_;
  compared_ = step;
  return verdict;
}

void ReplicaComparison::fail(const ReplicaVerdict& verdict, std::int64_t step,
                             std::int64_t resume_step) {
  const std::vector<std::string>& all_hosts = run_.world.hosts();
  const std::string text = fmt::format("after step {} {}", step, text_of(verdict, all_hosts));
  std::vector<std::string> hosts;
  for (const int rank : verdict.ranks) {
    hosts.push_back(all_hosts[static_cast<std::size_t>(rank)]);
  }
  run_.log.event("replicas_differ", step,
                 {{"ranks", verdict.ranks},
                  {"by_majority", verdict.by_majority},
                  {"tensors", verdict.tensors}});
  run_.log.event("failure", step,
                 {{"text", text},
                  {"ranks", verdict.ranks},
                  {"hosts", hosts},
                  {"health", "differs"},
                  {"by_majority", verdict.by_majority},
                  {"in_step", step}});
  throw on_all_ranks(PeerError(fmt::format(
      "{}.\nSilent data corruption suspected: check the machines with 'trireme doctor'. Restart "
      "without the faulty one; training resumes from step {}",
      text, resume_step)));
}

void ReplicaComparison::end(std::int64_t step) {
  if (count_ == 0) return;
  run_.log.event("replica_checks", step,
                 {{"count", count_},
                  {"mean_seconds", seconds_ / static_cast<double>(count_)},
                  {"bytes", check_->bytes()}});
}

}  // namespace trireme
