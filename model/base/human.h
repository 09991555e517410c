#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// Human-readable numbers, for the console and the report, never for storage. Sizes and counts
// always have three significant digits.
std::string human_bytes(std::uint64_t bytes);  // "512 B", "1.23 GiB"
std::string human_count(double count);         // "950", "12.3k", "124M", "1.10T"
std::string human_duration(double seconds);    // "850 ms", "12.3 s", "4m05s", "3h07m", "2d04h"
std::string grouped(std::int64_t number);      // "1,234,567"
std::string counted(std::int64_t number, std::string_view noun);  // "1 batch", "2 batches"

// Text of a stranger: shortened, without control characters.
std::string printable(std::string_view text);

}  // namespace trireme
