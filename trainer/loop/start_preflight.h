#pragma once
#include "checkpoint/team.h"
#include "parallel/comm/world.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/telemetry/events_log.h"

namespace trireme {

// The short preflight of a run that has its folder, where elastic.preflight wants one, on all
// ranks. Returns what the event "preflight" is to tell: its figures; null where there was none.
// Throws EnvironmentError on all ranks, naming those at fault, when the event is written.
EventsLog::Details preflight_at_start(const RunConfig& config, const World& world,
                                      const RankGroups& groups, Device device);

}  // namespace trireme
