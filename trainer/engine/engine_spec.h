#pragma once
#include "trainer/config/run_config.h"
#include "trainer/engine/engine.h"

namespace trireme {

DType compute_dtype(const std::string& name);  // "float32", ...
EngineSpec engine_spec(const RunConfig& config);

// The device that job.device asks for, "auto" for a GPU where there is one. The ranks of a host
// take its GPUs in turn. EnvironmentError when this build or machine has not got it.
Device open_device(const std::string& name, int local_rank);

}  // namespace trireme
