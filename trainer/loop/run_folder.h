#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>

#include "checkpoint/lease.h"
#include "checkpoint/store.h"
#include "checkpoint/team.h"
#include "trainer/config/run_config.h"

namespace trireme {

// The run folder as its one writer sees it, the ranks of a run. Built: the folder exists,
// is ours alone, and its checkpoints are where the config wants them.
struct RunFolder {
  RunFolder(const RunConfig& config, const checkpoint::Team& team);
  std::unique_ptr<checkpoint::Lease> lease;  // the leading rank has it
  std::filesystem::path path;
  std::int64_t incarnation;  // the lease's, on every rank
  checkpoint::Store store;
};

}  // namespace trireme
