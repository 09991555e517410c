#pragma once
#include "parallel/comm/world.h"
#include "trainer/tools/plan/device_profile.h"

namespace trireme {

// Measures what the CPU ranks of this world reach when all work at the same time, as in a run:
// in float32 and bfloat16 products of ten shapes, forward and both ways back, attention and the
// operations bound by memory, and sums between ranks. A few seconds. Collective; times are the same
// on all. A link that no two ranks have between them is taken from the listed CPU.
DeviceProfile calibrate(World& world);

}  // namespace trireme
