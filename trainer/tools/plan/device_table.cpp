#include "trainer/tools/plan/device_profile.h"

namespace trireme {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kMicro = 1e-6;

const Link kNvlink3{"NVLink 3", 300 * kGiga, 0.717, 6 * kMicro};
const Link kNvlink4{"NVLink 4", 450 * kGiga, 0.712, 6 * kMicro};
const Link kNvlink5{"NVLink 5", 900 * kGiga, 0.712, 6 * kMicro};
// NVIDIA's data sheets: A100 64 GB/s, H100, H200 and B200 128 GB/s, both directions together.
const Link kPcie4{"PCIe 4.0 x16", 32 * kGiga, 0.75, 10 * kMicro};
const Link kPcie5{"PCIe 5.0 x16", 64 * kGiga, 0.75, 10 * kMicro};
const Link kHdr{"InfiniBand HDR, 200 Gb/s a GPU", 25 * kGiga, 0.686, 12 * kMicro};
const Link kNdr{"InfiniBand NDR, 400 Gb/s a GPU", 50 * kGiga, 0.694, 12 * kMicro};
const Link kXdr{"InfiniBand XDR, 800 Gb/s a GPU", 100 * kGiga, 0.694, 12 * kMicro};

// NCCL's kernels occupy 15 % of the multiprocessors, which leaves 85 % to concurrent matmuls
// (github.com/NVIDIA/nccl/issues/1432). PyTorch's developers measured concurrent matmuls to be 30
// to 40 % slower (github.com/pytorch/pytorch/pull/179937).
constexpr double kOccupiedByMessages = 0.15;

Network network_of(const Link& within, const Link& between) {
  return {
      .ranks_per_node = 8, .within = within, .between = between, .occupied = kOccupiedByMessages};
}

// Efficiencies are fitted to one half of the runs in PUBLISHED.md; a device or format without runs
// takes those of the most similar one. Attention on the A100 is FlashAttention-2 with a causal mask
// (Dao 2023); float32 is a guess.
//
// Our own attention on Hopper is what an H200 measured, forward and backward together (KERNELS.md);
// other trainers have what their runs show. On an A100 it has not been measured: two thirds of
// FlashAttention-2.
constexpr double kOwnOnHopper = 0.5;

ProductRate rate(double tera, double product, double half_depth, double flash,
                 double own_flash = 0) {
  return {tera * kTera, product, half_depth, flash, own_flash};
}

DeviceProfile a100(const char* name, double gigabytes, double bandwidth, const Link& within) {
  return {.name = name,
          .source = "NVIDIA A100 data sheet",
          .memory_bytes = gigabytes * kGiga,
          .memory_bandwidth = bandwidth * kGiga,
          .streamed = 0.667,
          .launch = 4 * kMicro,
          .units = 108,
          .rates = {rate(19.5, 0.9, 64, 0.5), rate(312, 0.845, 61, 0.45, 0.3), {}},
          .network = network_of(within, kHdr),
          .host = kPcie4};
}

// 250 instead of 400 W: "90 % of the performance for top applications" by the data sheet.
DeviceProfile a100_pcie() {
  DeviceProfile profile = a100("A100-40G-PCIe", 42.3, 1555, kPcie4);
  profile.rates[1].product *= 0.9;
  return profile;
}

DeviceProfile hopper(const char* name, double gigabytes, double bandwidth) {
  return {.name = name,
          .source = "NVIDIA H100 and H200 data sheets",
          .memory_bytes = gigabytes * kGiga,
          .memory_bandwidth = bandwidth * kGiga,
          .streamed = 0.95,
          .launch = 4 * kMicro,
          .units = 132,
          .rates = {rate(66.9, 0.9, 64, 0.5), rate(989.4, 0.6, 49, 0.363, kOwnOnHopper),
                    rate(1978.9, 0.578, 70, 0.363)},
          .network = network_of(kNvlink4, kNdr),
          .host = kPcie5};
}

// `trireme doctor --calibrate` on one H200 (700 W, 2026-11-26). Products are 5 % slower than there:
// steps of 1.5B to 8B took 3 to 9 % longer than by what the device reaches for milliseconds.
// Attention is ours.
DeviceProfile h200() {
  DeviceProfile profile = hopper("H200", 150.1, 4800);
  profile.source = "measured on one H200; links by NVIDIA's data sheet";
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

DeviceProfile h100_pcie() {
  DeviceProfile profile = hopper("H100-PCIe", 85.0, 2039);
  profile.source = "NVIDIA H100 data sheet";
  profile.units = 114;
  profile.rates[0].peak = 51.2 * kTera;
  profile.rates[1].peak = 756 * kTera;
  profile.rates[2].peak = 1513 * kTera;
  profile.network.within = kPcie5;
  return profile;
}

DeviceProfile h100_500w() {
  DeviceProfile profile = hopper("H100-500W", 102.0, 2400);
  profile.source = "torchtitan's benchmarks: H100 of 96 GB HBM2e, limited to 500 W";
  profile.streamed = 0.4;
  profile.rates[1] = rate(989.4, 0.602, 65, 0.325, kOwnOnHopper);
  profile.rates[2] = rate(1978.9, 0.63, 67, 0.325);
  profile.network.within.reached = 0.794;
  profile.network.between.reached = 0.864;
  return profile;
}

DeviceProfile b200() {
  DeviceProfile profile = hopper("B200", 191.5, 8000);
  profile.source = "NVIDIA B200 data sheet; efficiencies of the H200";
  profile.units = 148;
  profile.rates[0].peak = 80 * kTera;
  profile.rates[1].peak = 2250 * kTera;
  profile.rates[2].peak = 4500 * kTera;
  profile.network = network_of(kNvlink5, kXdr);
  return profile;
}

// One core per rank.
DeviceProfile cpu() {
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
      .network = {.ranks_per_node = 64, .within = memory, .between = ethernet, .overlaps = false}};
}

}  // namespace

const std::vector<DeviceProfile>& listed_profiles() {
  static const std::vector<DeviceProfile> kProfiles{
      a100("A100-40G", 42.3, 1555, kNvlink3),
      a100("A100-80G", 85.0, 2039, kNvlink3),
      a100_pcie(),
      hopper("H100", 84.4, 3350),  // measured: less what the driver takes
      h100_pcie(),
      h100_500w(),
      h200(),
      b200(),
      cpu(),
  };
  return kProfiles;
}

}  // namespace trireme
