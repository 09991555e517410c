#pragma once
#include "model/device/stream.h"

namespace trireme {

// What the outside does around a unit's work (ParamStore::Unit): the seam for data
// parallelism and ZeRO, which gather weights before use and reduce gradients after. This
// class does nothing: all weights are here.
class UnitHooks {
 public:
  UnitHooks() = default;
  UnitHooks(const UnitHooks&) = delete;
  UnitHooks& operator=(const UnitHooks&) = delete;
  virtual ~UnitHooks() = default;

  // The unit's values are about to be read.
  virtual void before_forward(Stream&, int /*unit*/) {}
  // They are again, to go backward.
  virtual void before_backward(Stream&, int /*unit*/) {}
  // A micro-batch is about to add to the unit's gradients, and has done so.
  virtual void before_gradients(Stream&, int /*unit*/) {}
  virtual void after_gradients(Stream&, int /*unit*/) {}
};

}  // namespace trireme
