#pragma once
#include "model/device/device.h"
#include "model/device/tally.h"

namespace trireme {

// A queue of work on one device. On the CPU the work is done before the call
// returns; on CUDA it is done in order, later. No layer may assume which.
//
// A planning stream executes nothing: ops check their shapes, take their
// workspace and add what they would compute to a Tally. A step walked on a
// planning stream over unbounded arenas is how memory and FLOPs are planned, so
// the plan cannot drift from the step.
class Stream {
 public:
  explicit Stream(Device device = {}) : device_(device) {}
  Stream(Device device, Tally& tally) : device_(device), tally_(&tally) {}

  Device device() const { return device_; }
  bool on_cuda() const { return device_.kind == Device::Kind::kCuda; }
  bool executes() const { return tally_ == nullptr; }
  // Only on a planning stream.
  Tally& tally() const { return *tally_; }
  // Returns when everything queued so far is done.
  void synchronize() {}

 private:
  Device device_;
  Tally* tally_ = nullptr;
};

}  // namespace trireme
