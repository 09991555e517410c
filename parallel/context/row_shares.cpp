#include "parallel/context/row_shares.h"
namespace trireme {
void share_rows(std::span<std::int32_t> rows, std::span<const std::int32_t>, int ranks) {
  const std::int64_t n = std::ssize(rows), chunk = n / ranks / 2;
  for (std::int64_t r = 0; r < ranks; ++r)
    for (std::int64_t i = 0; i < chunk; ++i) {
      rows[r * 2 * chunk + i] = static_cast<std::int32_t>(r * chunk + i);
      rows[r * 2 * chunk + chunk + i] = static_cast<std::int32_t>((2 * ranks - 1 - r) * chunk + i);
    }
}
}  // namespace trireme
