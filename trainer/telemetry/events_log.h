#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "trainer/telemetry/cut_lines.h"
#include "trainer/telemetry/ledger_line.h"
#include "trainer/telemetry/record_file.h"

namespace trireme {

// RUN_DIR/events.jsonl: what happened to the run, one line each, over all its restarts:
//   {"time":"2026-03-01T12:00:00.123Z","event":"checkpoint","step":100,...details}
// The events, and the details that `trireme report` shows when they are there:
//   start                incarnation model parameters device ranks threads host version
//                        total_steps, and weights_from where they are another run's
//   resume               the same, and from (the checkpoint)
//   self_check           verdict why, of a resumed run's first step (self_check.h)
//   preflight            passed ranks hosts checks ([name passed text faults by_rank]) seconds
//   checkpoint           path bytes seconds
//   checkpoint_rejected  path why
//   checkpoint_removed   path
//   validation           loss bits_per_byte tokens seconds, and sets ([name loss bits_per_byte
//                        tokens]) where they have names
//   multiple_choice      name accuracy accuracy_stderr accuracy_norm accuracy_norm_stderr
//                        questions seconds (choice_score.h)
//   sample               prompt text seconds
//   bubble               measured predicted (of a traced pipeline)
//   hidden_communication measured (of traced collectives beside the work)
//   warning              text
//   failure              text, and of a step that was not applied what skip has; of a verdict
//                        ranks hosts health phase detect_seconds (since they last worked)
//   skip                 text reason loss grad_norm loss_zscore grad_norm_zscore samples
//                        ([first, end) of the batch) documents ([source, document]) and
//                        documents_complete, of the batch
//   rollback             the same, from (the checkpoint) to_step left_out ([first, end))
//   replicas_differ      ranks by_majority tensors (replica_verdict.h)
//   replica_checks       count mean_seconds bytes (of rank 0)
//   stop                 reason exit_code
// Others may be added; readers ignore what they do not know. Threads may share one.
// Each ends with "line", its number from 1, and "chain" (chained_text.h): several processes write
// the file, one at a time, and each line is chained to the last that is there.
class EventsLog {
 public:
  using Details = nlohmann::ordered_json;  // an object, e.g. {{"path", p}, {"bytes", n}}

  // Keeps all earlier events (a line torn by a kill is cut off). Throws
  // EnvironmentError when the file cannot be written.
  explicit EventsLog(const std::filesystem::path& path);

  // Never throws for a full disk or the like: see RecordFile. Text that is not UTF-8
  // is written with replacement characters, a number that is not finite as null.
  void record(std::string_view event, std::int64_t step,
              const Details& details = Details::object());
  bool sync() { return file_.sync(); }
  // What is there by now.
  EventsMark mark() const;

 private:
  LinesCut cut_;
  RecordFile file_;
};

}  // namespace trireme
