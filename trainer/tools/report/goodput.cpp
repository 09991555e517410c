#include "trainer/tools/report/goodput.h"

#include <algorithm>
#include <cmath>

#include "trainer/tools/report/event.h"

namespace trireme {
namespace {

struct Steps {
  double seconds = 0;      // of all of them
  double since_begin = 0;  // of those after the newest start or resume
  std::int64_t counted = 0;
};

Steps steps_of(const RunData& run, std::int64_t newest_begin) {
  Steps steps;
  const Series& seconds = run.series("step_seconds");
  for (std::size_t i = 0; i < seconds.steps.size(); ++i) {
    const double one = seconds.values[i];
    if (!std::isfinite(one) || one < 0) continue;
    steps.seconds += one;
    if (seconds.steps[i] > newest_begin) steps.since_begin += one;
    ++steps.counted;
  }
  return steps;
}

double positive(const RunEvent& event, const char* key) {
  return std::max(number_of(event, key).value_or(0), 0.0);
}

// What recovered, checkpoint and other events tell of the time they took.
struct TimesTold {
  double detect = 0, end = 0, relaunch = 0, load = 0, recomputed_steps = 0;
  double checkpoints = 0, snapshots = 0, comparisons = 0, validation = 0;
  bool recoveries = false;
  double gone_back = 0;  // steps, from failures to the states that were resumed from
  std::int64_t failed_at = 0;

  void add(const RunEvent& event) {
    if (is(event, "failure")) {
      failed_at = step_of(event);
    } else if (is(event, "resume")) {
      gone_back +=
          std::max(static_cast<double>(failed_at) - static_cast<double>(step_of(event)), 0.0);
      failed_at = 0;
    } else if (is(event, "recovered")) {
      recoveries = true;
      detect += positive(event, "detect_seconds");
      end += positive(event, "end_seconds");
      const double loads = positive(event, "load_seconds");  // until the run begins, too
      relaunch += std::max(positive(event, "relaunch_seconds") - loads, 0.0);
      load += loads;
      recomputed_steps += positive(event, "recomputed_steps");
    } else if (is(event, "checkpoint")) {
      checkpoints += positive(event, "stopped_seconds");
    } else if (is(event, "memory_snapshots")) {
      snapshots += positive(event, "count") * positive(event, "mean_seconds");
    } else if (is(event, "replica_checks")) {
      comparisons += positive(event, "count") * positive(event, "mean_seconds");
    } else if (is(event, "validation") || is(event, "multiple_choice") || is(event, "sample")) {
      validation += positive(event, "seconds");
    }
  }
};

// Time in which no incarnation ran, by what the one before ended with.
struct Down {
  double stopped = 0, failed = 0;
};

Down down_time(const RunData& run) {
  enum class Ended { kNot, kStopped, kFailed };
  Down down;
  Ended ended = Ended::kNot;
  double since = 0;
  for (const RunEvent& event : run.events) {
    const std::optional<double> time = time_of(event);
    if (!time) continue;
    const double now = *time;
    const double passed = std::max(now - since, 0.0);
    if (is(event, "stop")) {
      ended = Ended::kStopped;
      since = now;
    } else if (is(event, "failure") && ended != Ended::kFailed) {
      ended = Ended::kFailed;
      since = now;
    } else if (is_begin(event)) {
      if (ended == Ended::kStopped) down.stopped += passed;
      if (ended == Ended::kFailed) down.failed += passed;
      ended = Ended::kNot;
    } else if (is(event, "launch") && ended == Ended::kStopped) {
      down.stopped += passed;
      ended = Ended::kNot;
    }
  }
  return down;
}

struct Span {
  double first = 0, last = 0, begin = 0;  // begin: of the newest incarnation
  std::int64_t begin_step = 0;
};

std::optional<Span> span_of(const RunData& run) {
  std::optional<Span> span;
  for (const RunEvent& event : run.events) {
    const std::optional<double> time = time_of(event);
    if (!time) continue;
    const bool begins = is_begin(event) || is(event, "launch");
    if (!span && begins) span = Span{*time, *time, *time, 0};
    if (!span) continue;
    span->last = std::max(span->last, *time);
    if (is_begin(event)) {
      span->begin = *time;
      span->begin_step = step_of(event);
    }
  }
  return span;
}

}  // namespace

std::optional<Goodput> goodput(const RunData& run) {
  const std::optional<Span> span = span_of(run);
  if (!span) return std::nullopt;
  const Steps steps = steps_of(run, span->begin_step);
  // Of a run that still goes on the metrics are newer than the events.
  const double end = std::max(span->last, span->begin + steps.since_begin);
  Goodput found;
  found.wall = end - span->first;
  found.useful = steps.seconds;
  if (steps.counted == 0 || found.wall <= 0 || found.useful > found.wall) return std::nullopt;
  TimesTold told;
  std::int64_t begins = 0;
  for (const RunEvent& event : run.events) {
    told.add(event);
    found.failures += is(event, "failure");
    begins += is_begin(event);
  }
  found.restarts = std::max<std::int64_t>(begins - 1, 0);
  const double again = told.recoveries ? told.recomputed_steps : told.gone_back;
  found.recomputed_steps = static_cast<std::int64_t>(std::min(again, 9e18));
  const double step = steps.seconds / static_cast<double>(steps.counted);
  const Down down = down_time(run);
  double rest = found.wall - found.useful;
  const auto lose = [&](const char* name, double seconds) {
    const double known = std::min(seconds, rest);
    if (known <= 0) return;
    found.lost.push_back({name, known});
    rest -= known;
  };
  lose("detecting failures", told.detect);
  lose("ending what was left", told.end);
  lose("launching again", told.relaunch);
  lose("loading", told.load);
  lose("steps done again", again * step);
  lose("between a failure and the next start", told.recoveries ? 0 : down.failed);
  lose("between a stop and the next start", down.stopped);
  lose("standing for checkpoints", told.checkpoints);
  lose("snapshots in memory", told.snapshots);
  lose("comparing replicas", told.comparisons);
  lose("validation", told.validation);
  lose("starting, and what is not recorded", rest);
  return found;
}

}  // namespace trireme
