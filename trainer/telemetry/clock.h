#pragma once
#include <chrono>

namespace trireme {

// Seconds of a monotonic clock.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace trireme
