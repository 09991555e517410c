#pragma once
#include <filesystem>
#include <vector>

namespace trireme {

// RUN_DIR/flight-recorder holds the ledgers of the newest incarnation's ranks, and in
// previous-1 to previous-4 those of the incarnations before, the newest first.
inline constexpr const char* kRecorderFolder = "flight-recorder";
inline constexpr int kPreviousRecorders = 4;

// Makes the folder, and room in it for a new incarnation's ledgers: those that lie there
// become previous-1, the oldest and what a killed rank has half written go. By one process,
// before any of the new ranks keeps its own. Throws EnvironmentError.
void put_old_ledgers_aside(const std::filesystem::path& recorder);

// The ledgers in a folder, by rank. Throws EnvironmentError where it cannot be read.
std::vector<std::filesystem::path> ledgers_in(const std::filesystem::path& folder);

}  // namespace trireme
