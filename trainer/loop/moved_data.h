#pragma once
#include "trainer/config/run_config.h"

namespace trireme {

// `before` with its token files where `now` has files of the same names, in whatever folder.
// Whether those hold the same tokens is for the fingerprint to tell.
RunConfig with_moved_data(RunConfig before, const RunConfig& now);

}  // namespace trireme
