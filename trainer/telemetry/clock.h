#pragma once
#include <chrono>

namespace trireme {

// Of a clock that only goes forward.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace trireme
