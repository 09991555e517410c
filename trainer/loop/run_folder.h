#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>

#include "checkpoint/store/lease.h"
#include "checkpoint/store/store.h"
#include "parallel/comm/team.h"
#include "trainer/config/run_config.h"

namespace trireme {

// The run folder of its one writer, a run's ranks. Once constructed, the folder exists, this run
// holds its lease, and its checkpoints are where the config wants them.
struct RunFolder {
  RunFolder(const RunConfig& config, const Team& team);
  std::unique_ptr<checkpoint::Lease> lease;  // on rank 0
  std::filesystem::path path;
  std::int64_t incarnation;  // of the lease, on every rank
  checkpoint::Store store;
};

}  // namespace trireme
