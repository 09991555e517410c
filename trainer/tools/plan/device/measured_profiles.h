#pragma once
#include "trainer/tools/plan/device/device_profile.h"

namespace trireme {

// Units of the tables of devices.
inline constexpr double kTera = 1e12, kGiga = 1e9, kMicro = 1e-6;

// `trireme doctor --calibrate` on one H200 (700 W, 2026-11-26). Products are 5 % slower than there:
// steps of 1.5B to 8B took 3 to 9 % longer than by what the device reaches for milliseconds.
// Attention is ours.
DeviceProfile measured_h200(DeviceProfile profile);

// One core per rank.
DeviceProfile measured_cpu();

}  // namespace trireme
