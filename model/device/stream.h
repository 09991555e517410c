#pragma once
#include <cstdint>

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
  // On CUDA, work of an urgent stream that is ready starts before others'.
  enum class Priority : std::uint8_t { kUsual, kUrgent };

  // On CUDA it waits for no other stream, the default one included. Throws
  // EnvironmentError where the device is not there.
  explicit Stream(Device device = {}, Priority priority = Priority::kUsual);
  Stream(Device device, Tally& tally) : device_(device), tally_(&tally) {}
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  // Work still queued is done all the same.
  ~Stream();

  Device device() const { return device_; }
  bool on_cuda() const { return device_.is_cuda(); }
  bool executes() const { return tally_ == nullptr; }
  // Only on a planning stream.
  Tally& tally() const { return *tally_; }
  // The cudaStream_t of an executing stream on CUDA; else null.
  void* handle() const { return handle_; }
  // Returns when everything queued so far is done. Throws EnvironmentError when some of it
  // has failed.
  void synchronize();

 private:
  Device device_;
  Tally* tally_ = nullptr;
  void* handle_ = nullptr;
};

}  // namespace trireme
