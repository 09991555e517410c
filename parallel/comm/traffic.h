#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace trireme {

// Bytes that a rank sends in one group. A collective counts with the least volume of any algorithm:
// among n ranks, 2 (n - 1) / n D for an all-reduce of D bytes, (n - 1) / n D for its reduce-scatter
// and all-gather (Patarasuk and Yuan 2009).
struct Sent {
  double bytes = 0;
  std::int64_t calls = 0;
  bool operator==(const Sent&) const = default;
};

// Keyed by group name.
using Traffic = std::map<std::string, Sent, std::less<>>;

}  // namespace trireme
