#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

// Content of the console line of an interval.
struct StepLine {
  std::int64_t step = 0;
  std::int64_t total = 0;  // 0: unknown
  double loss = 0, grad_norm = 0, lr = 0;
  double tokens_per_second = 0;
  double mfu = 0;  // 0: unknown
  std::uint64_t memory_bytes = 0;
  std::optional<double> seconds_left;
};

// Each form is shorter than the previous one.
enum class StepForm {
  kFull,      // "step 40/400 | loss 2.4499 | norm 1.8439 | lr 2.95e-03 | ..."
  kShort,     // "step 40/400 loss 2.4499 norm 1.84 lr 3.0e-3 ..."
  kNoTotal,   // "step 40 loss ..."
  kNoMemory,  // as kNoTotal, without the memory
};

std::string step_line(const StepLine& line, StepForm form);

// The longest form that fits `width` columns, for this line and later ones with any time left; the
// shortest if none fits.
StepForm step_form(const StepLine& line, int width);

}  // namespace trireme
