#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/tools/plan/device/device_profile.h"
#include "trainer/tools/plan/device/efficiencies.h"
#include "trainer/tools/plan/device/measured_profiles.h"

namespace trireme {
namespace {

// Data sheets: A100 64 GB/s, H100, H200, B200, B300 and MI300X 128 GB/s, both directions together.
const Link kPcie4{"PCIe 4.0 x16", 32 * kGiga, 0.75, 10 * kMicro};
const Link kPcie5{"PCIe 5.0 x16", 64 * kGiga, 0.75, 10 * kMicro};
// 900 GB/s in both directions together, of a Grace with two GPUs.
const Link kChipToChip{"NVLink-C2C", 225 * kGiga, 0.75, 10 * kMicro};

// Joules by efficiencies.h. What the largest matmuls reach at the full clock, for a moment:
// github.com/stas00/ml-engineering, "Maximum Achievable Matmul FLOPS comparison table".
constexpr double kAmpereReached = 0.869, kHopperReached = 0.803, kFloat8Reached = 0.709,
                 kInstinctReached = 0.514;

// Of published runs, predicted with what was fitted to all sources but their own (PUBLISHED.md).
constexpr TimeBand kPublishedBand{0.92, 1.27};

// Attention, forward and backward together, by ProductRate's formula. On Hopper cuDNN's: heads of
// 64 and 128 and 512 to 16384 keys in figures 5 and 6 of Shah et al. 2024. On the A100 it is
// FlashAttention-2's 189 TFLOP/s (Dao 2023). Our own on Hopper is what one H200 measured with heads
// of 128 and 4096 keys (KERNELS.md); on an A100 it has not been measured: two thirds of
// FlashAttention-2.
constexpr double kHalfWidth = 42, kHalfKeys = 410;
constexpr double kHopperAttention = 0.71, kOwnOnHopper = 0.53;
constexpr double kAmpereAttention = 0.82, kOwnOnAmpere = 0.55;

// By single kernels that SimuMax timed on a B200 (github.com/MooreThreads/SimuMax at 4dcaae5,
// configs/system/b200_bf16_ceperm.json), not by its steps. Joules per FLOP in 16 bits: with them
// the median of its 168 matmuls of at least 2 TFLOP, whose gradients of weights are added to
// float32, takes as long as it did. Share of these that a FLOP of attention takes: by causal
// attention to 131072 tokens, which lasts long enough for the clock to fall.
constexpr double kBlackwellJoules = 1.58e-12, kAttentionEnergy = 0.59;

// Watts of memory, links and leakage, which a lower clock does not save: of a device with a context
// and nothing to do, by arXiv 2605.23918 (A100, H100) and TensorRT-LLM's issue 10278 (B200).
constexpr double kAmpereIdle = 80, kHopperIdle = 122, kBlackwellIdle = 192;

// Of the full clock, if a matmul that reaches `rate` FLOP/s there takes so many joules per FLOP.
double sustained_clock(double watts, double joules, double rate) {
  return std::min(1.0, std::cbrt(watts / (joules * rate)));
}

ProductRate float32(double tera) {
  return {.peak = tera * kTera, .product = 0.9, .half_depth = 64, .flash = 0.5};
}

// Dense peaks in TFLOP/s; `reached` as above.
struct Blackwell {
  const char *name, *source;
  double gigabytes;  // that nvidia-smi shows, less what the driver takes
  double watts;
  int units;
  double float32, half, float8, nvfp4, reached, float8_reached, out_gigabits;
  bool is_rack = false;  // of 72 GPUs joined by NVLink
};
constexpr std::array<Blackwell, 4> kBlackwells{{
    {"B200",
     "NVIDIA DGX B200 data sheet; matmuls in 8 and 16 bits as measured by ml-engineering, energy "
     "in 16 bits by SimuMax's kernels on B200; assumed: NVFP4 reaches what float8 does, energy "
     "in 8 bits, attention at the full clock, links and memory as on H100",
     191.5, 1000, 148, 75, 2250, 4500, 9000, 0.776, 0.763, 400},
    {"B300",
     "NVIDIA HGX B300 data sheet; matmuls in 8 and 16 bits as measured by ml-engineering, energy "
     "in 16 bits by SimuMax's kernels on B200; assumed: NVFP4 reaches what float8 does, energy "
     "in 8 bits, attention at the full clock, links and memory as on H100",
     287.6, 1100, 148, 75, 2250, 4500, 14000, 0.786, 0.745, 800},
    {"GB200",
     "NVIDIA GB200 NVL72 data sheet; matmuls in 8 and 16 bits as measured by ml-engineering, "
     "energy in 16 bits by SimuMax's kernels on B200; assumed: NVFP4 reaches what float8 does, "
     "energy in 8 bits, attention at the full clock, links and memory as on H100",
     197.9, 1200, 152, 80, 2500, 5000, 10000, 0.729, 0.723, 400, true},
    {"GB300",
     "NVIDIA GB300 NVL72 data sheet; energy in 16 bits by SimuMax's kernels on B200; assumed: "
     "matmuls reach what was measured on GB200, energy in 8 bits, attention at the full clock, "
     "links and memory as on H100",
     297.2, 1400, 152, 80, 2500, 5000, 15000, 0.729, 0.723, 800, true},
}};

// The data sheets of GPUs with the given efficiencies.
class DataSheets {
 public:
  explicit DataSheets(const Efficiencies& reached) : reached_(reached) {}
  DeviceProfile a100(const char* name, double gigabytes, double bandwidth, double watts,
                     const char* link, double link_bandwidth) const;
  DeviceProfile hopper(const char* name, double gigabytes, double bandwidth, double watts) const;
  DeviceProfile h100_pcie() const;
  DeviceProfile h100_500w() const;
  DeviceProfile blackwell(const Blackwell& of) const;
  DeviceProfile mi300x() const;

 private:
  Network network(const char* link, double link_bandwidth, double out_gigabits) const;
  ProductRate reaching(double tera, double product, double attention, double own_attention) const;
  // With so many watts above those of a device that does nothing.
  ProductRate sustained(double tera, double at_full_clock, double watts, double joules) const;

  const Efficiencies& reached_;
};

Network DataSheets::network(const char* link, double link_bandwidth, double out_gigabits) const {
  const bool is_nvlink = std::string_view(link).starts_with("NVLink");
  return {.ranks_per_node = 8,
          .within = {link, link_bandwidth * kGiga, reached_.nvlink, 6 * kMicro,
                     is_nvlink ? 1.9 * kMicro : 0},
          .between = {fmt::format("InfiniBand, {:.0f} Gb/s a GPU", out_gigabits),
                      out_gigabits / 8 * kGiga, reached_.network, 12 * kMicro,
                      is_nvlink ? 4 * kMicro : 0},
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

// Matmuls and attention run at the clock that the power of each leaves.
ProductRate DataSheets::sustained(double tera, double at_full_clock, double watts,
                                  double joules) const {
  const auto slowed = [&](double reached, double energy) {
    return reached * sustained_clock(watts, energy, tera * kTera * reached);
  };
  const double of_attention = kAttentionEnergy * joules;
  return reaching(tera, slowed(at_full_clock, joules), slowed(kHopperAttention, of_attention),
                  slowed(kOwnOnHopper, of_attention));
}

// What the matmuls reach was measured with 400 W, all of which they are taken to need.
DeviceProfile DataSheets::a100(const char* name, double gigabytes, double bandwidth, double watts,
                               const char* link, double link_bandwidth) const {
  constexpr double kWatts = 400 - kAmpereIdle, kTera16 = 312;
  const double joules = kWatts / (kTera16 * kTera * kAmpereReached);
  const auto slowed = [&](double reached, double energy) {
    return reached * sustained_clock(watts - kAmpereIdle, energy, kTera16 * kTera * reached);
  };
  const double product = slowed(kAmpereReached, joules),
               attention = slowed(kAmpereAttention, kAttentionEnergy * joules);
  return {.name = name,
          .source = "NVIDIA A100 data sheet",
          .memory_bytes = gigabytes * kGiga,
          .memory_bandwidth = bandwidth * kGiga,
          .streamed = reached_.streamed,
          .launch = 4 * kMicro,
          .units = 108,
          .rates = {float32(19.5), reaching(kTera16, product, attention, kOwnOnAmpere), {}},
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
          .rates = {float32(66.9),
                    sustained(989.4, kHopperReached, watts - kHopperIdle, reached_.hopper_joules),
                    sustained(1978.9, kFloat8Reached, watts - kHopperIdle, reached_.float8_joules)},
          .network = network("NVLink 4", 450, 400),
          .host = kPcie5,
          .band = kPublishedBand};
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

DeviceProfile DataSheets::blackwell(const Blackwell& of) const {
  DeviceProfile profile = hopper(of.name, of.gigabytes, 8000, of.watts);
  profile.source = of.source;
  profile.units = of.units;
  const double watts = of.watts - kBlackwellIdle, float8 = reached_.float8_joules;
  profile.rates = {
      float32(of.float32), sustained(of.half, of.reached, watts, kBlackwellJoules),
      sustained(of.float8, of.float8_reached, watts, float8),
      sustained(of.float8, of.float8_reached, watts, float8),
      // Assumed: 4 bits take less than 8 by what these take less than 16.
      sustained(of.nvfp4, of.float8_reached, watts, float8 * float8 / reached_.hopper_joules)};
  profile.network = network("NVLink 5", 900, of.out_gigabits);
  if (of.is_rack) {
    profile.network.ranks_per_node = 72;
    profile.network.even = true;
    profile.network.ranks_per_host = 4;
    profile.host = kChipToChip;
  }
  return profile;
}

DeviceProfile DataSheets::mi300x() const {
  const double attention = kHopperAttention * kInstinctReached / kHopperReached;
  DeviceProfile profile{
      .name = "MI300X",
      .source =
          "AMD MI300X data sheet; matmuls in 16 bits as measured by ml-engineering; assumed: "
          "float8 reaches the same share, attention as much of a matmul and links and memory "
          "as much as on H100",
      .memory_bytes = 205.3 * kGiga,  // 192 GiB
      .memory_bandwidth = 5300 * kGiga,
      .streamed = reached_.streamed,
      .launch = 4 * kMicro,
      .units = 304,
      .rates = {float32(163.4), reaching(1307, kInstinctReached, attention, attention),
                reaching(2614, kInstinctReached, attention, attention)},
      .network = network("Infinity Fabric, 7 x 64 GB/s", 448, 400),
      .host = kPcie5,
      .band = {}};
  profile.network.pairwise = true;
  return profile;
}

}  // namespace

const Efficiencies& fitted_efficiencies() {
  static const Efficiencies kFitted{.hopper_joules = 1.016e-12,
                                    .float8_joules = 0.5965e-12,
                                    .half_depth = 68.2,
                                    .streamed = 0.7644,
                                    .nvlink = 0.7739,
                                    .network = 0.6708,
                                    .straggling = 0.0086,
                                    .occupied = 0.2643};
  return kFitted;
}

std::vector<DeviceProfile> listed_profiles(const Efficiencies& efficiencies) {
  const DataSheets sheets(efficiencies);
  std::vector<DeviceProfile> all{
      sheets.a100("A100-40G", 42.3, 1555, 400, "NVLink 3", 300),
      sheets.a100("A100-80G", 85.0, 2039, 400, "NVLink 3", 300),
      sheets.a100("A100-40G-PCIe", 42.3, 1555, 250, "PCIe 4.0 x16", 32),
      sheets.hopper("H100", 84.4, 3350, 700),  // measured: less what the driver takes
      sheets.h100_pcie(),
      sheets.h100_500w(),
      measured_h200(sheets.hopper("H200", 150.1, 4800, 700))};
  for (const Blackwell& of : kBlackwells) all.push_back(sheets.blackwell(of));
  all.push_back(sheets.mi300x());
  all.push_back(measured_cpu());
  return all;
}

const std::vector<DeviceProfile>& listed_profiles() {
  static const std::vector<DeviceProfile> kProfiles = listed_profiles(fitted_efficiencies());
  return kProfiles;
}

}  // namespace trireme
