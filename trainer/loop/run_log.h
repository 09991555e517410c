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

// The outputs of a run: the console, and in its folder metrics.jsonl, events.jsonl, ledger.jsonl
// and TensorBoard. Rank 0 writes; on other ranks every call does nothing.
class RunLog {
 public:
  RunLog(bool leads, const Console::Options& console);

  // Opens the files to continue after `begin.after`. Before that, only the console works.
  void open(const std::filesystem::path& folder, const LedgerBegin& begin, bool tensorboard);

  void banner(const std::string& title, const std::vector<Console::Row>& rows);
  void note(const std::string& text);
  void event(const char* name, std::int64_t step,
             const EventsLog::Details& details = EventsLog::Details::object());
  // On the console and as an event.
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
