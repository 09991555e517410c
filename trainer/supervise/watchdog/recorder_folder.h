#pragma once
#include <filesystem>
#include <vector>

namespace trireme {

// RUN_DIR/flight-recorder contains the recordings of the newest incarnation's ranks; previous-1 to
// previous-4 below it those of earlier incarnations, newest first.
inline constexpr const char* kRecorderFolder = "flight-recorder";
inline constexpr int kPreviousRecorders = 4;

// Creates the folder and moves the recordings in it to previous-1; removes the oldest ones and
// incomplete files. Call it in one process, before any new rank creates its recording. Throws
// EnvironmentError.
void archive_recordings(const std::filesystem::path& recorder);

// Paths of the recordings in a folder, by rank. Throws EnvironmentError if it cannot be read.
std::vector<std::filesystem::path> recordings_in(const std::filesystem::path& folder);

}  // namespace trireme
