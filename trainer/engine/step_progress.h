#pragma once
#include <cstdint>

#include "model/params/param_store.h"
#include "parallel/comm/ledger.h"
#include "parallel/pipeline/observer.h"

namespace trireme {

// Records in the rank's ledger where in a step the engine is: phase, micro-batch and layer.
class StepProgress final : public PipelineObserver {
 public:
  // Null on a planning stream.
  explicit StepProgress(Ledger* ledger) : ledger_(ledger) {}

  void enter(ledger::Phase phase) {
    phase_ = phase;
    if (ledger_) ledger_->enter(phase);
  }
  void use(const ParamStore::Unit& unit) {
    if (ledger_ && unit.layer >= 0) ledger_->set_layer(unit.layer);
  }
  // Also receives all events; may be null.
  void pass_on_to(PipelineObserver* observer) { next_ = observer; }
  void begin(Stream& stream, const Event& event) override;
  void end(Stream& stream, const Event& event) override {
    if (next_) next_->end(stream, event);
  }

 private:
  void follow(const Event& event);

  Ledger* ledger_;
  PipelineObserver* next_ = nullptr;
  ledger::Phase phase_ = ledger::Phase::kStart;
};

}  // namespace trireme
