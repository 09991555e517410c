#pragma once
#include <optional>
#include <string>

#include "trainer/tools/report/event.h"
#include "trainer/tools/report/run_data.h"

namespace trireme {

// An event that tells of a failure or of what was done about one.
struct Told {
  const char* what;
  std::string text;  // what is to be known of it
  bool bad = false;
};
std::optional<Told> told_of(const RunEvent& event);  // nothing: it tells of something else

// What failed, what was done about it and what it cost, as HTML; empty where nothing is known.
std::string failures_html(const RunData& run);

}  // namespace trireme
