#pragma once
#include "model/device/stream.h"

namespace trireme {

// While it exists, ops that a planning stream records are those that a backward recomputes.
class RecomputedOps {
 public:
  explicit RecomputedOps(const Stream& stream) : tally_(stream.tally()) {
    if (tally_ == nullptr) return;
    before_ = tally_->recomputes;
    tally_->recomputes = true;
  }
  ~RecomputedOps() {
    if (tally_ != nullptr) tally_->recomputes = before_;
  }
  RecomputedOps(const RecomputedOps&) = delete;
  RecomputedOps& operator=(const RecomputedOps&) = delete;

 private:
  Tally* tally_;
  bool before_ = false;
};

}  // namespace trireme
