#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// File names in the run folder.
inline constexpr const char* kLedgerFile = "ledger.jsonl";
inline constexpr const char* kMetricsFile = "metrics.jsonl";

// A violation found by the audit.
struct Finding {
  std::string file;       // name in the run folder
  std::int64_t line = 0;  // from 1; 0: whole file
  std::int64_t step = 0;  // 0: no step
  std::string text;
};
using Findings = std::vector<Finding>;

// "ledger.jsonl:17: step 9: its samples ..."
std::string text_of(const Finding& finding);

}  // namespace trireme
