#pragma once
#include <filesystem>
#include <vector>

namespace trireme {

// RUN_DIR/flight-recorder contains the ledgers of the newest incarnation's ranks; previous-1 to
// previous-4 below it those of earlier incarnations, newest first.
inline constexpr const char* kRecorderFolder = "flight-recorder";
inline constexpr int kPreviousRecorders = 4;

// Creates the folder and moves the ledgers in it to previous-1; removes the oldest ones and
// incomplete files. Call it in one process, before any new rank creates its ledger. Throws
// EnvironmentError.
void put_old_ledgers_aside(const std::filesystem::path& recorder);

// Paths of the ledgers in a folder, by rank. Throws EnvironmentError if it cannot be read.
std::vector<std::filesystem::path> ledgers_in(const std::filesystem::path& folder);

}  // namespace trireme
