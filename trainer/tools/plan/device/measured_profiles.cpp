#include "trainer/tools/plan/device/measured_profiles.h"

namespace trireme {
namespace {

ProductRate rate(double tera, double product, double half_depth, double flash,
                 double own_flash = 0) {
  return {tera * kTera, product, half_depth, flash, own_flash};
}

}  // namespace

DeviceProfile measured_h200(DeviceProfile profile) {
  profile.source = "measured on one H200; links by NVIDIA's data sheet";
  profile.band = kMeasuredBand;
  profile.streamed = 0.905;
  profile.launch = 4.4 * kMicro;
  ProductRate& half = profile.rates[1];
  half = rate(989.4, 0.797, 0, 1.822, 1.617);
  half.half_width = 324;
  half.half_keys = 3442;
  half.streams = {{"add", 0.93},
                  {"bias_backward", 0.81},
                  {"embedding", 0.85},
                  {"embedding_backward", 0.71},
                  {"gelu", 0.90},
                  {"gelu_backward", 0.93},
                  {"layer_norm", 0.82},
                  {"layer_norm_backward", 0.60},
                  {"loss", 0.90},
                  {"quantize", 0.91},
                  {"rms_norm", 0.85},
                  {"rms_norm_backward", 0.70},
                  {"rope", 0.84},
                  {"swiglu", 0.90},
                  {"swiglu_backward", 0.88},
                  {"update", 0.87}};
  profile.rates[2] = rate(1978.9, 0.711, 0, 0.911);
  return profile;
}

DeviceProfile measured_cpu() {
  const Link memory{"shared memory", 4 * kGiga, 0.8, 3 * kMicro};
  const Link ethernet{"Ethernet, 10 Gb/s", 1.25 * kGiga, 0.72, 30 * kMicro};
  return {
      .name = "CPU",
      .source = "measured on one Cascade Lake core; see trireme doctor --calibrate",
      .memory_bytes = 8 * kGiga,
      .memory_bandwidth = 20 * kGiga,
      .streamed = 0.5,
      .launch = 2 * kMicro,
      .units = 1,
      .rates = {rate(0.146, 0.75, 16, 0.3), rate(0.146, 0.15, 16, 0.1), {}},
      .network = {.ranks_per_node = 64, .within = memory, .between = ethernet, .overlaps = false},
      .band = {}};
}

}  // namespace trireme
