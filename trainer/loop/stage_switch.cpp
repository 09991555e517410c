#include "trainer/loop/stage_switch.h"

#include <fmt/format.h>

#include "model/base/human.h"
#include "trainer/config/batch_size.h"
#include "trainer/telemetry/clock.h"

namespace trireme {

void StageSwitch::before_step(TrainState& state) {
  if (run_.stages.size() == 1) return;
  leave_out_the_rest(state);
  run_.recorder().enter(flight::Phase::kStart);
  const double start = seconds_now();
  if (!run_.enter_stage(state.position(), state.step)) return;
  trace_.follow_engine();
  const std::int64_t step = state.step + 1, seq_len = run_.stage().length.seq_len;
  const double seconds = seconds_now() - start;
  run_.log.note(
      fmt::format("step {}: sequences of {} from sample {} on (data.stages), after {:.1f} s", step,
                  counted(seq_len, "token"), state.position(), seconds));
  run_.log.event("stage", step,
                 {{"seq_len", seq_len},
                  {"sample", state.position()},
                  {"memory_plan_bytes", run_.stage().plan.memory.total()},
                  {"seconds", seconds}});
}

void StageSwitch::leave_out_the_rest(TrainState& state) {
  const std::int64_t step = state.step + 1;
  const auto sequences =
      static_cast<std::uint64_t>(sequences_of_step(run_.config().training, step));
  for (const RunStage& stage : run_.stages) {
    const std::uint64_t first = stage.length.first_sample;
    const data::SampleRange samples = state.next(sequences);
    if (samples.first >= first || first >= samples.end) continue;
    const data::SampleRange rest{samples.first, first};
    state.left_out.add(rest);
    run_.log.note(
        fmt::format("step {}: leaving out samples {} to {}, too few for a step before the "
                    "next of data.stages",
                    step, rest.first, rest.end - 1));
    run_.log.event("stage_skip", step,
                   {{"samples", nlohmann::json::array({rest.first, rest.end})}});
  }
}

}  // namespace trireme
