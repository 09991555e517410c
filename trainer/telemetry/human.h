#pragma once
#include <cstdint>
#include <string>

namespace trireme {

// Numbers as people read them; used for the console and the report, never to store.
std::string human_bytes(std::uint64_t bytes);  // "512 B", "1.23 GiB"
std::string human_count(double count);         // "950", "12.3k", "124.4M", "1.10T"
std::string human_duration(double seconds);    // "850 ms", "12.3 s", "4m05s", "3h07m", "2d04h"
std::string grouped(std::int64_t number);      // "1,234,567"

}  // namespace trireme
