#pragma once
#include "trainer/config/run_config.h"
#include "trainer/engine/engine.h"

namespace trireme {

DType compute_dtype(const std::string& name);  // "float32", ...
EngineSpec engine_spec(const RunConfig& config);

// The device the config asks for; EnvironmentError when this build or machine has not got it.
Device open_device(const std::string& name);

}  // namespace trireme
