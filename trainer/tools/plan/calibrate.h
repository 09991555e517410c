#pragma once
#include "parallel/comm/world.h"
#include "trainer/tools/plan/device_profile.h"

namespace trireme {

// Measures the CPU ranks of this world under load, with all ranks working at the same time: matmuls
// of ten shapes in float32 and bfloat16 (forward, input gradient, weight gradient), attention,
// memory-bound operations, and all-reduces. Takes a few seconds. Collective; every rank returns the
// same times. Links that this world does not have are taken from the listed profile "CPU".
DeviceProfile calibrate(World& world);

}  // namespace trireme
