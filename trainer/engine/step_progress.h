#pragma once
#include <cstdint>

#include "model/params/param_store.h"
#include "parallel/comm/flight_recorder.h"
#include "parallel/pipeline/observer.h"

namespace trireme {

// Records the engine's position within a step in the flight recorder: phase, micro-batch, layer.
class StepProgress final : public PipelineObserver {
 public:
  // Null on a planning stream.
  explicit StepProgress(FlightRecorder* recorder) : recorder_(recorder) {}

  void enter(flight::Phase phase) {
    phase_ = phase;
    if (recorder_) recorder_->enter(phase);
  }
  void use(const ParamStore::Unit& unit) {
    if (recorder_ && unit.layer >= 0) recorder_->set_layer(unit.layer);
  }
  // Also receives all events; may be null.
  void pass_on_to(PipelineObserver* observer) { next_ = observer; }
  void begin(Stream& stream, const Event& event) override;
  void end(Stream& stream, const Event& event) override {
    if (next_) next_->end(stream, event);
  }

 private:
  void follow(const Event& event);

  FlightRecorder* recorder_;
  PipelineObserver* next_ = nullptr;
  flight::Phase phase_ = flight::Phase::kStart;
};

}  // namespace trireme
