#include "trainer/engine/step_progress.h"

namespace trireme {

void StepProgress::begin(Stream& stream, const Event& event) {
  follow(event);
  if (next_) next_->begin(stream, event);
}

void StepProgress::follow(const Event& event) {
  if (!recorder_ || (event.what != What::kAction && event.what != What::kWait)) return;
  if (phase_ != flight::Phase::kValidate) {
    const bool forward = event.action.kind == Action::Kind::kForward;
    const auto phase = forward ? flight::Phase::kForward : flight::Phase::kBackward;
    if (phase != phase_) enter(phase);
  }
  recorder_->set_micro_batch(event.action.micro_batch);
}

}  // namespace trireme
