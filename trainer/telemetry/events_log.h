#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "trainer/telemetry/cut_lines.h"
#include "trainer/telemetry/record_file.h"
#include "trainer/telemetry/step_ledger.h"

namespace trireme {

// RUN_DIR/events.jsonl: the events of a run over all its restarts, one JSON object per line:
//   {"time":"2026-03-01T12:00:00.123Z","event":"checkpoint","step":100,...details}
// Events and their details (`trireme report` shows those that are present):
//   start                incarnation model parameters device ranks threads host version
//                        total_steps, and weights_from if they come from another run, with
//                        upcycled_layers upcycled_experts upcycle_noise if its MLPs became experts
//   resume               as start, and from (the checkpoint)
//   self_check           verdict why, for the first step of a resumed run (self_check.h)
//   preflight            passed ranks hosts checks ([name passed text faults by_rank]) seconds
//   checkpoint           path bytes seconds
//   checkpoint_rejected  path why
//   checkpoint_removed   path
//   validation           loss bits_per_byte tokens seconds, and sets ([name loss bits_per_byte
//                        tokens]) if they have names
//   multiple_choice      name accuracy accuracy_stderr accuracy_norm accuracy_norm_stderr
//                        questions seconds (multiple_choice.h)
//   sample               prompt text seconds
//   bubble               measured predicted (if the pipeline is traced)
//   hidden_communication measured (if overlapped collectives are traced)
//   warning              text
//   failure              text; for a step that was not applied also the keys of skip; for a verdict
//                        ranks hosts health phase detect_seconds (since their last progress)
//   skip                 text reason loss grad_norm loss_zscore grad_norm_zscore (with experts
//                        also expert_load_max_over_mean expert_load_zscore) samples ([first, end)
//                        of the batch) documents ([source, document]) and documents_complete, of
//                        the batch
//   rollback             as skip, and from (the checkpoint) to_step left_out ([first, end))
//   replicas_differ      ranks by_majority tensors (replica_verdict.h)
//   replica_checks       count mean_seconds bytes (on rank 0)
//   stop                 reason exit_code
// More events may be added; readers ignore unknown ones. Thread-safe.
// Each line ends with "line", its number from 1, and "chain" (step_ledger.h). Several processes
// write the file, one at a time, and each line is chained to the previous one.
class EventsLog {
 public:
  using Details = nlohmann::ordered_json;  // an object, e.g. {{"path", p}, {"bytes", n}}

  // Keeps earlier events; removes an incomplete last line. Throws EnvironmentError if the file
  // cannot be written.
  explicit EventsLog(const std::filesystem::path& path);

  // Does not throw for write errors such as a full disk: see RecordFile. Invalid UTF-8 is written
  // with replacement characters, a non-finite number as null.
  void record(std::string_view event, std::int64_t step,
              const Details& details = Details::object());
  bool sync() { return file_.sync(); }
  // Current number of lines, and the chain of the last.
  EventsMark mark() const;

 private:
  LinesCut cut_;
  RecordFile file_;
};

}  // namespace trireme
