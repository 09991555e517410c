#pragma once
#include <chrono>
#include <cstdint>

#include "model/device/stream.h"

namespace trireme {

// A point in the work of a stream, for other streams and the host to wait for. On the CPU,
// where work is done when its call returns, nobody has to wait. Planning streams record and
// await nothing.
class Event {
 public:
  // Events that are not timed cost less.
  enum class Use : std::uint8_t { kOrder, kTiming };

  explicit Event(Device device = {}, Use use = Use::kOrder);
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  // After what is queued on `stream` now, in place of what was recorded before.
  void record(Stream& stream);
  // What is queued on `stream` from now on waits for what was recorded. An event that was
  // never recorded is waited for by nobody.
  void make_wait(Stream& stream) const;
  bool is_done() const;
  void synchronize() const;  // the host waits
  // Between two events of Use::kTiming, of one device, both done.
  double milliseconds_since(const Event& earlier) const;

 private:
  Device device_;
  void* handle_ = nullptr;
  std::chrono::steady_clock::time_point time_;
};

}  // namespace trireme
