#pragma once
#include "parallel/comm/world.h"
#include "trainer/tools/plan/calibrate/calibration_sizes.h"
#include "trainer/tools/plan/device/device_profile.h"

namespace trireme {

// Measures the ranks of this world under load, with all ranks working at the same time: matmuls of
// a dozen shapes in float32 and bfloat16 (forward, input gradient, weight gradient), attention,
// memory-bound operations, and all-reduces; on a GPU also float8 and our own attention in addition
// to cuDNN's. Takes half a minute, a minute on several ranks, longer where they share cores.
// Collective; every rank returns the same times. `device`: the rank's own, which world.use_device()
// has got unless it is the CPU. Links that this world does not have are taken from the listed
// profile of the device, "H100" for an unknown GPU.
DeviceProfile calibrate(World& world, Device device, const CalibrationSizes& sizes);

// Bytes/s of copies between pinned host memory and a GPU, for display.
struct CopyRates {
  double to_device = 0, to_host = 0;
};
CopyRates measure_copies(Device device);

}  // namespace trireme
