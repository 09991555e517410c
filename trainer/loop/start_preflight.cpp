#include "trainer/loop/start_preflight.h"

#include "trainer/supervise/preflight/job.h"
#include "trainer/telemetry/clock.h"

namespace trireme {

EventsLog::Details preflight_at_start(const RunConfig& config, const World& world,
                                      const RankGroups& groups, Device device) {
  if (!config.elastic.preflight) return nullptr;
  const double start = seconds_now();
  preflight::Preflight checks(checkpoint::Team(*groups.all), world.hosts());
  preflight::make_quick(checks, config, world, groups, device);
  EventsLog::Details told = checks.report();
  told["seconds"] = seconds_now() - start;
  // The run's own log opens later: it cuts what a run beyond this step has left.
  if (groups.all->rank() == 0 && !checks.passed()) {
    EventsLog(config.job.dump_folder / "events.jsonl").record("preflight", 0, told);
  }
  checks.require_passed();
  return told;
}

}  // namespace trireme
