#pragma once
#include <optional>
#include <string>

#include "trainer/tools/report/event.h"
#include "trainer/tools/report/run_data.h"

namespace trireme {

// A failure, recovery or restart event.
struct FailureEvent {
  const char* what;
  std::string text;  // details
  bool bad = false;
};
std::optional<FailureEvent> failure_event_of(const RunEvent& event);  // nullopt for other events

// HTML section of goodput, failures and restarts; empty without such data.
std::string failures_html(const RunData& run);

}  // namespace trireme
