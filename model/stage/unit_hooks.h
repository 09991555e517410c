#pragma once
#include "model/device/stream.h"

namespace trireme {

// Callbacks around the use of a unit (ParamStore::Unit): the extension point for data parallelism
// and ZeRO, which all-gather weights before use and reduce gradients afterwards. This base class
// does nothing.
class UnitHooks {
 public:
  UnitHooks() = default;
  UnitHooks(const UnitHooks&) = delete;
  UnitHooks& operator=(const UnitHooks&) = delete;
  virtual ~UnitHooks() = default;

  // The unit's values are about to be read by a forward.
  virtual void before_forward(Stream&, int /*unit*/) {}
  // The unit's values are about to be read by a backward.
  virtual void before_backward(Stream&, int /*unit*/) {}
  // Called before and after a micro-batch accumulates into the unit's gradients.
  virtual void before_gradients(Stream&, int /*unit*/) {}
  virtual void after_gradients(Stream&, int /*unit*/) {}
};

}  // namespace trireme
