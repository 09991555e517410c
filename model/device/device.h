#pragma once
#include <cstdint>
#include <ostream>

namespace trireme {

struct Device {
  enum class Kind : std::uint8_t { kCpu, kCuda };
  Kind kind = Kind::kCpu;
  int index = 0;
  constexpr bool is_cuda() const { return kind == Kind::kCuda; }
  bool operator==(const Device&) const = default;
};

// "cpu", "cuda:1"
inline std::ostream& operator<<(std::ostream& out, const Device& device) {
  return device.is_cuda() ? out << "cuda:" << device.index : out << "cpu";
}

}  // namespace trireme
