#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/tools/audit/records.h"

namespace trireme {

// Checks the samples of `step`, whose predecessor ended before sample `end` (0: no predecessor).
// Returns "" if every sample from `end` on is either trained on or excluded, otherwise an error.
std::string complaint_of_window(const LedgerStep& step, std::uint64_t end);

// "samples 12 to 15"
std::string samples_text(data::SampleRange range);

// Samples excluded within the window of the step.
data::LeftOut left_out_inside(const LedgerStep& step);

// data.stages of an incarnation, or "".
std::string stages_of(const LedgerBegin& begin);

// Hash of the samples of a step.
std::uint64_t key_of_samples(const LedgerStep& step);

// Exclusions recorded by data.skip and by skip and rollback events.
class ExclusionReasons {
 public:
  explicit ExclusionReasons(const std::vector<LeftOutRecord>& events);
  // Adds data.skip of an incarnation.
  void add(const std::vector<data::SampleRange>& skip);
  // An error for the first excluded range of the step without a recorded reason, or "".
  std::string complaint(const LedgerStep& step) const;

 private:
  std::vector<LeftOutRecord> events_;  // by step
  data::LeftOut skip_;
};

}  // namespace trireme
