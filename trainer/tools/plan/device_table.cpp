#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/tools/plan/device_profile.h"
#include "trainer/tools/plan/efficiencies.h"

namespace trireme {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kMicro = 1e-6;

// NVIDIA's data sheets: A100 64 GB/s, H100, H200 and B200 128 GB/s, both directions together.
const Link kPcie4{"PCIe 4.0 x16", 32 * kGiga, 0.75, 10 * kMicro};
const Link kPcie5{"PCIe 5.0 x16", 64 * kGiga, 0.75, 10 * kMicro};

// Joules by efficiencies.h. What the largest matmuls reach at the full clock, for a moment:
// github.com/stas00/ml-engineering, "Maximum Achievable Matmul FLOPS comparison table".
constexpr double kAmpereReached = 0.869, kHopperReached = 0.803, kFloat8Reached = 0.709,
                 kBlackwellReached = 0.776, kBlackwellFloat8Reached = 0.763;

// Of published runs, predicted with what was fitted to all sources but their own (PUBLISHED.md).
constexpr TimeBand kPublishedBand{0.91, 1.33};

// Attention, forward and backward together, by ProductRate's formula. On Hopper cuDNN's: heads of
// 64 and 128 and 512 to 16384 keys in figures 5 and 6 of Shah et al. 2024. On the A100 it is
// FlashAttention-2's 189 TFLOP/s (Dao 2023). Our own on Hopper is what one H200 measured with heads
// of 128 and 4096 keys (KERNELS.md); on an A100 it has not been measured: two thirds of
// FlashAttention-2.
constexpr double kHalfWidth = 42, kHalfKeys = 410;
constexpr double kHopperAttention = 0.71, kOwnOnHopper = 0.53;
constexpr double kAmpereAttention = 0.82, kOwnOnAmpere = 0.55;

// Of the full clock, if a matmul that reaches `rate` FLOP/s there takes so many joules per FLOP.
double sustained_clock(double watts, double joules, double rate) {
  return std::min(1.0, std::cbrt(watts / (joules * rate)));
}

ProductRate rate(double tera, double product, double half_depth, double flash,
                 double own_flash = 0) {
  return {tera * kTera, product, half_depth, flash, own_flash};
}

// The data sheets of GPUs with the given efficiencies.
class DataSheets {
 public:
  explicit DataSheets(const Efficiencies& reached) : reached_(reached) {}
  DeviceProfile a100(const char* name, double gigabytes, double bandwidth, double product,
                     const char* link, double link_bandwidth) const;
  DeviceProfile hopper(const char* name, double gigabytes, double bandwidth, double watts) const;
  DeviceProfile h100_pcie() const;
  DeviceProfile h100_500w() const;
  DeviceProfile b200() const;

 private:
  Network network(const char* link, double link_bandwidth, double out_gigabits) const;
  ProductRate reaching(double tera, double product, double attention, double own_attention) const;
  ProductRate sustained(double tera, double at_full_clock, double watts, double joules) const;

  const Efficiencies& reached_;
};

Network DataSheets::network(const char* link, double link_bandwidth, double out_gigabits) const {
  return {.ranks_per_node = 8,
          .within = {link, link_bandwidth * kGiga, reached_.nvlink, 6 * kMicro},
          .between = {fmt::format("InfiniBand, {:.0f} Gb/s a GPU", out_gigabits),
                      out_gigabits / 8 * kGiga, reached_.network, 12 * kMicro},
          .occupied = reached_.occupied,
          .straggling = reached_.straggling};
}

ProductRate DataSheets::reaching(double tera, double product, double attention,
                                 double own_attention) const {
  return {.peak = tera * kTera,
          .product = product,
          .half_depth = reached_.half_depth,
          .flash = attention,
          .own_flash = own_attention,
          .half_width = kHalfWidth,
          .half_keys = kHalfKeys};
}

ProductRate DataSheets::sustained(double tera, double at_full_clock, double watts,
                                  double joules) const {
  const double clock = sustained_clock(watts, joules, tera * kTera * at_full_clock);
  return reaching(tera, at_full_clock * clock, kHopperAttention, kOwnOnHopper);
}

DeviceProfile DataSheets::a100(const char* name, double gigabytes, double bandwidth, double product,
                               const char* link, double link_bandwidth) const {
  return {.name = name,
          .source = "NVIDIA A100 data sheet",
          .memory_bytes = gigabytes * kGiga,
          .memory_bandwidth = bandwidth * kGiga,
          .streamed = reached_.streamed,
          .launch = 4 * kMicro,
          .units = 108,
          .rates = {rate(19.5, 0.9, 64, 0.5),
                    reaching(312, product, kAmpereAttention, kOwnOnAmpere),
                    {}},
          .network = network(link, link_bandwidth, 200),
          .host = kPcie4,
          .band = kPublishedBand};
}

DeviceProfile DataSheets::hopper(const char* name, double gigabytes, double bandwidth,
                                 double watts) const {
  return {.name = name,
          .source = "NVIDIA H100 and H200 data sheets",
          .memory_bytes = gigabytes * kGiga,
          .memory_bandwidth = bandwidth * kGiga,
          .streamed = reached_.streamed,
          .launch = 4 * kMicro,
          .units = 132,
          .rates = {rate(66.9, 0.9, 64, 0.5),
                    sustained(989.4, kHopperReached, watts, reached_.hopper_joules),
                    sustained(1978.9, kFloat8Reached, watts, reached_.float8_joules)},
          .network = network("NVLink 4", 450, 400),
          .host = kPcie5,
          .band = kPublishedBand};
}

// `trireme doctor --calibrate` on one H200 (700 W, 2026-11-26). Products are 5 % slower than there:
// steps of 1.5B to 8B took 3 to 9 % longer than by what the device reaches for milliseconds.
// Attention is ours.
DeviceProfile h200(DeviceProfile profile) {
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

DeviceProfile DataSheets::h100_pcie() const {
  DeviceProfile profile = hopper("H100-PCIe", 85.0, 2039, 350);
  profile.source = "NVIDIA H100 data sheet";
  profile.units = 114;
  profile.rates[0].peak = 51.2 * kTera;
  profile.rates[1].peak = 756 * kTera;
  profile.rates[2].peak = 1513 * kTera;
  profile.network.within = kPcie5;
  return profile;
}

DeviceProfile DataSheets::h100_500w() const {
  DeviceProfile profile = hopper("H100-500W", 102.0, 2400, 500);
  profile.source = "torchtitan's benchmarks: H100 of 96 GB HBM2e, limited to 500 W";
  return profile;
}

DeviceProfile DataSheets::b200() const {
  DeviceProfile profile = hopper("B200", 191.5, 8000, 1000);
  profile.source = "NVIDIA B200 data sheet; efficiencies of Hopper";
  profile.units = 148;
  profile.rates[0].peak = 80 * kTera;
  profile.rates[1] = sustained(2250, kBlackwellReached, 1000, reached_.hopper_joules);
  profile.rates[2] = sustained(4500, kBlackwellFloat8Reached, 1000, reached_.float8_joules);
  profile.network = network("NVLink 5", 900, 800);
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
      .network = {.ranks_per_node = 64, .within = memory, .between = ethernet, .overlaps = false},
      .band = {}};
}

}  // namespace

const Efficiencies& fitted_efficiencies() {
  static const Efficiencies kFitted{.hopper_joules = 1.30e-12,
                                    .float8_joules = 0.74e-12,
                                    .half_depth = 65,
                                    .streamed = 0.757,
                                    .nvlink = 0.782,
                                    .network = 0.651,
                                    .straggling = 0.0087,
                                    .occupied = 0.23};
  return kFitted;
}

std::vector<DeviceProfile> listed_profiles(const Efficiencies& efficiencies) {
  const DataSheets sheets(efficiencies);
  return {
      sheets.a100("A100-40G", 42.3, 1555, kAmpereReached, "NVLink 3", 300),
      sheets.a100("A100-80G", 85.0, 2039, kAmpereReached, "NVLink 3", 300),
      sheets.a100("A100-40G-PCIe", 42.3, 1555, kAmpereReached * std::cbrt(250.0 / 400),
                  "PCIe 4.0 x16", 32),
      sheets.hopper("H100", 84.4, 3350, 700),  // measured: less what the driver takes
      sheets.h100_pcie(),
      sheets.h100_500w(),
      h200(sheets.hopper("H200", 150.1, 4800, 700)),
      sheets.b200(),
      cpu(),
  };
}

const std::vector<DeviceProfile>& listed_profiles() {
  static const std::vector<DeviceProfile> kProfiles = listed_profiles(fitted_efficiencies());
  return kProfiles;
}

}  // namespace trireme
