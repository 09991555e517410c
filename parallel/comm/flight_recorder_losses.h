#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace trireme {

// The first peer failures that a rank detected or was notified of. They are stored in its
// flight-recorder file from byte 536, 16 bytes each (time by the recorder's clock, rank; zero:
// unused), and survive the process. If the launcher kills the remaining ranks, they show which rank
// failed first.
struct FlightRecorderLoss {
  std::int64_t at = 0;
  std::int64_t rank = 0;
};
inline constexpr std::size_t kLedgerLosses = 4;
inline constexpr std::size_t kLedgerLossesAt = 536;

// Appends a record. Dropped if all slots are used or the file is gone.
void note_loss(const std::filesystem::path& recorder, FlightRecorderLoss loss);

// In the order of detection. Throws EnvironmentError if the file cannot be read.
std::vector<FlightRecorderLoss> losses_in(const std::filesystem::path& recorder);

}  // namespace trireme
