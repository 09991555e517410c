#include "trainer/tools/report/goodput.h"

#include <algorithm>
#include <cmath>

#include "trainer/tools/report/event.h"

namespace trireme {
namespace {

struct Steps {
  double seconds = 0;      // of all steps
  double since_begin = 0;  // of steps after the last start or resume
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

// Times recorded in recovered, checkpoint and other events.
struct RecordedTimes {
  double detect = 0, end = 0, relaunch = 0, load = 0, recomputed_steps = 0;
  double checkpoints = 0, snapshots = 0, comparisons = 0, validation = 0;
  bool recoveries = false;
  double steps_lost = 0;  // steps between failures and the resumed state
  std::int64_t failed_at = 0;

  void add(const RunEvent& event) {
    if (is(event, "failure")) {
      failed_at = step_of(event);
    } else if (is(event, "resume")) {
      steps_lost +=
          std::max(static_cast<double>(failed_at) - static_cast<double>(step_of(event)), 0.0);
      failed_at = 0;
    } else if (is(event, "recovered")) {
      recoveries = true;
      detect += positive(event, "detect_seconds");
      end += positive(event, "end_seconds");
      const double loads = positive(event, "load_seconds");  // also part of relaunch_seconds
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

// Time without a running incarnation, by the end of the previous one.
struct Downtime {
  double stopped = 0, failed = 0;
};

Downtime down_time(const RunData& run) {
  enum class LastEnd { kNot, kStopped, kFailed };
  Downtime down;
  LastEnd ended = LastEnd::kNot;
  double since = 0;
  for (const RunEvent& event : run.events) {
    const std::optional<double> time = time_of(event);
    if (!time) continue;
    const double now = *time;
    const double passed = std::max(now - since, 0.0);
    if (is(event, "stop")) {
      ended = LastEnd::kStopped;
      since = now;
    } else if (is(event, "failure") && ended != LastEnd::kFailed) {
      ended = LastEnd::kFailed;
      since = now;
    } else if (is_begin(event)) {
      if (ended == LastEnd::kStopped) down.stopped += passed;
      if (ended == LastEnd::kFailed) down.failed += passed;
      ended = LastEnd::kNot;
    } else if (is(event, "launch") && ended == LastEnd::kStopped) {
      down.stopped += passed;
      ended = LastEnd::kNot;
    }
  }
  return down;
}

struct Span {
  double first = 0, last = 0, begin = 0;  // begin: of the last incarnation
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
  // The metrics of a running run are newer than its events.
  const double end = std::max(span->last, span->begin + steps.since_begin);
  Goodput found;
  found.wall = end - span->first;
  found.useful = steps.seconds;
  if (steps.counted == 0 || found.wall <= 0 || found.useful > found.wall) return std::nullopt;
  RecordedTimes recorded;
  std::int64_t begins = 0;
  for (const RunEvent& event : run.events) {
    recorded.add(event);
    found.failures += is(event, "failure");
    begins += is_begin(event);
  }
  found.restarts = std::max<std::int64_t>(begins - 1, 0);
  const double again = recorded.recoveries ? recorded.recomputed_steps : recorded.steps_lost;
  found.recomputed_steps = static_cast<std::int64_t>(std::min(again, 9e18));
  const double step = steps.seconds / static_cast<double>(steps.counted);
  const Downtime down = down_time(run);
  double rest = found.wall - found.useful;
  const auto lose = [&](const char* name, double seconds) {
    const double known = std::min(seconds, rest);
    if (known <= 0) return;
    found.lost.push_back({name, known});
    rest -= known;
  };
  lose("failure detection", recorded.detect);
  lose("shutdown after failures", recorded.end);
  lose("relaunch", recorded.relaunch);
  lose("checkpoint loading", recorded.load);
  lose("recomputed steps", again * step);
  lose("downtime after failures", recorded.recoveries ? 0 : down.failed);
  lose("downtime after stops", down.stopped);
  lose("blocked by checkpoints", recorded.checkpoints);
  lose("memory snapshots", recorded.snapshots);
  lose("replica checks", recorded.comparisons);
  lose("validation", recorded.validation);
  lose("startup and unattributed", rest);
  return found;
}

}  // namespace trireme
