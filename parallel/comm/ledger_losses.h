#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace trireme {

// The first ranks that a rank's watch saw go, or was told of at once: they stand in the file of its
// ledger, from byte 536 on, 16 bytes each (when, by the ledger's clock, and which; zero: none), and
// outlive it with the rest. Where a launcher kills all that are left, they tell who went first.
struct LedgerLoss {
  std::int64_t at = 0;
  std::int64_t rank = 0;
};
inline constexpr std::size_t kLedgerLosses = 4;
inline constexpr std::size_t kLedgerLossesAt = 536;

// Adds one. Where there is no room or no file any more it is lost.
void note_loss(const std::filesystem::path& ledger, LedgerLoss loss);

// In the order in which they were seen. Throws EnvironmentError where the file cannot be read.
std::vector<LedgerLoss> losses_in(const std::filesystem::path& ledger);

}  // namespace trireme
