#pragma once
#include <filesystem>

#include "checkpoint/lease.h"
#include "checkpoint/store.h"
#include "trainer/config/run_config.h"

namespace trireme {

// The run folder as its one writer sees it. Built: the folder exists, is ours alone,
// and its checkpoints are where the config wants them.
struct RunFolder {
  explicit RunFolder(const RunConfig& config);
  std::filesystem::path path;
  checkpoint::Lease lease;
  checkpoint::Store store;
};

}  // namespace trireme
