#pragma once
#include <optional>

#include "trainer/loop/run_context.h"
#include "trainer/loop/step_trace.h"

namespace trireme {

// metrics.trace: observes the engine and the world in the first steps of a start and reports the
// measured bubble and overlap. Without it, and afterwards, every call does nothing.
class TraceSession {
 public:
  explicit TraceSession(RunContext& run) : run_(run) {}

  void start();
  // The engine is another one.
  void follow_engine();
  void begin_step(std::int64_t step);
  // Runs `work` as a named span of the step.
  template <class Work>
  auto part(const char* name, const Work& work) {
    if (!trace_) return work();
    const StepTrace::Part traced(*trace_, name);
    return work();
  }
  // Collective.
  StepTrace::Shares end_step();
  // Ends the trace once its steps are done, for a run at `step`.
  void after_step(std::int64_t step);
  void end(std::int64_t step);

 private:
  RunContext& run_;
  std::optional<StepTrace> trace_;
};

}  // namespace trireme
