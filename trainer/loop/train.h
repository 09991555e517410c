#pragma once
#include "model/base/error.h"
#include "trainer/config/loaded_config.h"

namespace trireme {

// `trireme train`: resumes from the newest good checkpoint of the run folder, if any, and trains to
// the end or to a signal. Returns kDone or kStopped; throws on every other end.
ExitCode train(const LoadedConfig& loaded);

}  // namespace trireme
