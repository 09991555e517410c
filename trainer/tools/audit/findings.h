#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Of the run folder.
inline constexpr const char* kLedgerFile = "ledger.jsonl";
inline constexpr const char* kMetricsFile = "metrics.jsonl";

// One thing that is not as it must be.
struct Finding {
  std::string file;       // of the run folder
  std::int64_t line = 0;  // from 1; 0: none of them
  std::int64_t step = 0;  // 0: none
  std::string text;
};
using Findings = std::vector<Finding>;

// "ledger.jsonl:17: step 9: its samples ..."
std::string text_of(const Finding& finding);

}  // namespace trireme
