#pragma once
#include "model/base/error.h"
#include "trainer/config/loaded_config.h"

namespace trireme {

// Runs `trireme train`: opens the data, plans and takes the memory, continues from
// the newest good checkpoint of the run folder, trains to the end or to a signal,
// and leaves metrics, events and checkpoints behind. Returns kDone or kStopped;
// everything else is thrown.
ExitCode train(const LoadedConfig& loaded);

}  // namespace trireme
