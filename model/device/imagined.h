#pragma once
#include "model/device/device.h"

namespace trireme {

// A GPU that this machine does not have; for planning streams only.
constexpr Device imagined_gpu() {
  return {Device::Kind::kCuda, -1};
}
constexpr bool is_imagined(Device device) {
  return device.kind == Device::Kind::kCuda && device.index < 0;
}

}  // namespace trireme
