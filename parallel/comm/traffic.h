#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace trireme {

// What a rank sends in one group of ranks. A collective counts what every algorithm of the least
// volume sends: of n ranks an all-reduce of D bytes 2 (n - 1) / n D, its two halves (n - 1) / n D
// each (Patarasuk and Yuan 2009).
struct Sent {
  double bytes = 0;
  std::int64_t calls = 0;
  bool operator==(const Sent&) const = default;
};

// By the group's name.
using Traffic = std::map<std::string, Sent, std::less<>>;

}  // namespace trireme
