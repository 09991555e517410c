#include "trainer/loop/trace_session.h"

#include <fmt/format.h>

#include "trainer/loop/run_description.h"

namespace trireme {

void TraceSession::start() {
  if (!run_.config().metrics.trace) return;
  trace_.emplace(run_.folder.path, run_.groups, run_.config().metrics.trace_steps);
  run_.engine().observe(&*trace_);
  run_.world.observe(&*trace_);
}

void TraceSession::follow_engine() {
  if (trace_) run_.engine().observe(&*trace_);
}

void TraceSession::begin_step(std::int64_t step) {
  if (trace_) trace_->begin_step(step, run_.stream);
}

StepTrace::Shares TraceSession::end_step() {
  return trace_ ? trace_->end_step() : StepTrace::Shares{};
}

void TraceSession::after_step(std::int64_t step) {
  if (trace_ && trace_->done()) end(step);
}

void TraceSession::end(std::int64_t step) {
  if (!trace_) return;
  RunLog& log = run_.log;
  log.note("traced the first steps: open trace-*.json in ui.perfetto.dev");
  const auto [bubble, hidden] = trace_->shares();
  if (bubble) {
    const double predicted = predicted_timeline(run_.engine().schedule()).idle_fraction();
    log.note(
        fmt::format("pipeline bubble: {:.1f} % measured (median), {:.1f} % predicted for "
                    "equal stages",
                    100 * *bubble, 100 * predicted));
    log.event("bubble", step, {{"measured", *bubble}, {"predicted", predicted}});
  }
  if (hidden) {
    log.note(
        fmt::format("{:.1f} % of asynchronous communication time is hidden by compute "
                    "(median)",
                    100 * *hidden));
    log.event("hidden_communication", step, {{"measured", *hidden}});
  }
  run_.engine().observe(nullptr);
  run_.world.observe(nullptr);
  trace_.reset();
}

}  // namespace trireme
