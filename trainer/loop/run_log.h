#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/telemetry/console.h"
#include "trainer/telemetry/events_log.h"
#include "trainer/telemetry/metrics_log.h"
#include "trainer/telemetry/step_ledger.h"
#include "trainer/telemetry/tensorboard.h"

namespace trireme {

// Everything a run tells: to people on the console, and to metrics.jsonl, events.jsonl
// and TensorBoard in its folder. The leading rank tells it; on the others every call
// does nothing.
class RunLog {
 public:
  RunLog(bool leads, const Console::Options& console);

  // Opens the files of a run that goes on from there. Before that only the console tells.
  void open(const std::filesystem::path& folder, const LedgerBegin& begin, bool tensorboard);

  void banner(const std::string& title, const std::vector<Console::Row>& rows);
  void note(const std::string& text);
  void event(const char* name, std::int64_t step,
             const EventsLog::Details& details = EventsLog::Details::object());
  // A note and an event.
  void warn(std::int64_t step, const std::string& text);
  void step(const LedgerStep& taken, const StepMetrics& metrics);
  void validation(const StepMetrics& metrics, std::int64_t tokens, double seconds);
  void sync();

 private:
  std::optional<Console> console_;
  std::optional<MetricsLog> metrics_;
  std::optional<EventsLog> events_;
  std::optional<StepLedger> ledger_;
  std::optional<TensorBoard> tensorboard_;
};

}  // namespace trireme
