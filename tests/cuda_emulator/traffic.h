#pragma once
#include <cstdint>

namespace trireme::emulator {

struct Traffic {
  std::uint64_t read = 0, written = 0;  // bytes of device memory
  std::uint64_t most_blocks = 0;        // of one kernel
};

// While one lives, counts what kernels, copies and fills move, in whole pages: each kernel reads
// and writes a page once, however often it touches it, as if caches kept everything for its
// duration. A page that a kernel writes before it reads it counts as written alone. Products are
// not counted.
class TrafficCounter {
 public:
  static bool is_available();  // on x86-64 Linux, which tells a fault's direction

  TrafficCounter();
  ~TrafficCounter();
  TrafficCounter(const TrafficCounter&) = delete;
  TrafficCounter& operator=(const TrafficCounter&) = delete;

  const Traffic& traffic() const { return traffic_; }

 private:
  Traffic traffic_;
};

}  // namespace trireme::emulator
