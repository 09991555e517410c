#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/tools/audit/records.h"

namespace trireme {

// What is wrong with the samples of `step`, whose predecessor's ended at `end` (0: it has none);
// empty when every sample from there on is either trained on or left out.
std::string complaint_of_window(const LedgerStep& step, std::uint64_t end);

// "samples 12 to 15"
std::string samples_text(data::SampleRange range);

// The samples a step was trained on, of its window.
data::LeftOut left_out_inside(const LedgerStep& step);

// data.stages of an incarnation; empty where it had none.
std::string stages_of(const LedgerBegin& begin);

// Equal for steps that were trained on the same samples.
std::uint64_t key_of_samples(const LedgerStep& step);

// The samples that somebody said are left out, and before which step.
class Reasons {
 public:
  explicit Reasons(const std::vector<LeftOutRecord>& events);
  // Of data.skip, from here on.
  void add(const std::vector<data::SampleRange>& skip);
  // The first range of what the step left out that nobody gave a reason for, in words; or empty.
  std::string complaint(const LedgerStep& step) const;

 private:
  std::vector<LeftOutRecord> events_;  // by step
  data::LeftOut skip_;
};

}  // namespace trireme
