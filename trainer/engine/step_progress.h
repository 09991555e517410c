#pragma once
#include <cstdint>
#include <deque>

#include "model/stage/block_hooks.h"
#include "parallel/comm/ledger.h"
#include "parallel/pipeline/observer.h"

namespace trireme {

// Tells a rank's ledger where in a step its engine is: phase, micro-batch and layer.
class StepProgress final : public PipelineObserver {
 public:
  // Null where nothing is done, but planned.
  explicit StepProgress(Ledger* ledger) : ledger_(ledger) {}

  void enter(ledger::Phase phase) {
    phase_ = phase;
    if (ledger_) ledger_->enter(phase);
  }
  // For a stage whose first block is this one of the model's.
  BlockHooks& hooks_of(std::int64_t first_block) {
    return hooks_.emplace_back(*this, static_cast<int>(first_block));
  }
  // Told all events as well; null for nobody.
  void pass_on_to(PipelineObserver* observer) { next_ = observer; }
  void begin(Stream& stream, const Event& event) override;
  void end(Stream& stream, const Event& event) override {
    if (next_) next_->end(stream, event);
  }

 private:
  void follow(const Event& event);
  class LayerHooks final : public BlockHooks {
   public:
    LayerHooks(StepProgress& progress, int first) : progress_(progress), first_(first) {}
    void before_forward(int block) override { tell(block); }
    void before_backward(int block) override { tell(block); }

   private:
    void tell(int block) const {
      if (progress_.ledger_) progress_.ledger_->set_layer(first_ + block);
    }
    StepProgress& progress_;
    int first_;
  };

  Ledger* ledger_;
  PipelineObserver* next_ = nullptr;
  ledger::Phase phase_ = ledger::Phase::kStart;
  std::deque<LayerHooks> hooks_;
};

}  // namespace trireme
