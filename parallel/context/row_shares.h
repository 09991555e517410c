#pragma once
#include <cstdint>
#include <span>
namespace trireme {
void share_rows(std::span<std::int32_t> rows, std::span<const std::int32_t> document_start,
                int ranks);
constexpr std::int64_t row_multiple(std::int64_t ranks) {
  return ranks > 1 ? 2 * ranks : 1;
}
}  // namespace trireme
