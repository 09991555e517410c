#pragma once
#include <chrono>
#include <cstdint>

#include "model/device/stream.h"

namespace trireme {

// A point in a stream that other streams and the host can wait for. No-op on the CPU, where work is
// done when its call returns, and on planning streams.
class Event {
 public:
  // Events without timing are cheaper.
  enum class Use : std::uint8_t { kOrder, kTiming };

  explicit Event(Device device = {}, Use use = Use::kOrder);
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  // Records the work enqueued on `stream` so far, replacing an earlier record.
  void record(Stream& stream);
  // Makes later work on `stream` wait for the recorded work. No-op if the event was never recorded.
  void make_wait(Stream& stream) const;
  bool is_done() const;
  void synchronize() const;  // blocks the host
  // Time between two completed events of Use::kTiming on one device.
  double milliseconds_since(const Event& earlier) const;

 private:
  Device device_;
  void* handle_ = nullptr;
  std::chrono::steady_clock::time_point time_;
};

}  // namespace trireme
