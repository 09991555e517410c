#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/device/device.h"
#include "trainer/tools/plan/device/links.h"

namespace trireme {

// Storage format of matmul operands. kHalf: bfloat16, float16. kMxfp8 and kNvfp4 have a scale per
// block (matmul_format.h).
enum class NumberFormat : std::uint8_t { kFloat32, kHalf, kFloat8, kMxfp8, kNvfp4 };
constexpr int kNumberFormats = 5;
const char* name_of(NumberFormat numbers);    // "float32", "half", "float8", "mxfp8", "nvfp4"
NumberFormat format_of(std::size_t element);  // of operands with so many bytes per element

// How fast matmuls are; see ProductRate.
struct MatmulEfficiency {
  double product = 0;                      // fraction of the peak that large ones reach
  double half_depth = 0;                   // depth at which half of that is reached
  double half_rows = 0, half_columns = 0;  // the same of other extents; measured devices only
};

// Efficiency of a device in one number format. A matmul of rows x columns x depth takes
// 2 rows columns depth / (peak * product) seconds, times 1 + half_depth / depth, with the output
// rounded up to whole waves of tiles over the device's units.
struct ProductRate {
  double peak = 0;     // dense FLOP/s by the vendor; 0: not supported
  double product = 0;  // as in MatmulEfficiency, of one matmul
  double half_depth = 0;
  double flash = 0;      // fraction of the peak that fused attention reaches on causal FLOPs
  double own_flash = 0;  // the same of our own kernels (kOwnAttention); 0: `flash`

  // Measured devices only: a matmul's factor also includes half_rows / rows and half_columns /
  // columns, and attention's half_width / head_dim and half_keys / keys.
  double half_rows = 0, half_columns = 0;
  double half_width = 0, half_keys = 0;
  // If measured: of grouped matmuls, of those with PlannedOp::transpose_a, of those with both.
  std::optional<MatmulEfficiency> grouped = {}, weight_gradient = {}, grouped_weight_gradient = {};
  // Fraction of the memory bandwidth by PlannedOp::name; others use `streamed`.
  std::map<std::string, double> streams = {};

  MatmulEfficiency matmul(bool is_grouped, bool transpose_a) const {
    if (is_grouped && transpose_a && grouped_weight_gradient) return *grouped_weight_gradient;
    if (is_grouped && grouped) return *grouped;
    if (transpose_a && weight_gradient) return *weight_gradient;
    return {product, half_depth, half_rows, half_columns};
  }
};

// The time of nine steps in ten over what is predicted; 0: unknown.
struct TimeBand {
  double least = 0, most = 0;
};
// Of a profile that was measured: of 18 runs in scripts/speed/RESULTS.md and of experts on CPUs 16,
// and of 31 of two ranks on two cores, drawn by lot before those in CPU.md, 29.
inline constexpr TimeBand kMeasuredBand{0.92, 1.12};
// The same of ranks that share cores, chosen from 20 such runs before those in CPU.md.
inline constexpr TimeBand kSharedCoresBand{0.86, 1.15};

// A device with its memory and links; for a CPU, the resources of one rank.
struct DeviceProfile {
  std::string name;    // value of --gpu
  std::string source;  // source of the figures
  double memory_bytes = 0;
  double memory_bandwidth = 0;  // bytes/s by the vendor
  double streamed = 0;          // fraction of it that memory-bound operations reach
  double launch = 0;            // seconds of overhead per operation
  int units = 1;                // multiprocessors, for wave quantization
  int cores = 0;                // shared by the ranks of a node; 0: not shared
  double idle_time_used = 1;    // share of waiting ranks' part of the cores that the others get
  std::array<ProductRate, kNumberFormats> rates;  // by NumberFormat
  Network network;
  // Between the device and pinned host memory. Of a CPU, and of profiles that were written before
  // it was measured, without bandwidth.
  Link host = {};
  TimeBand band = kMeasuredBand;
  bool shares_cores() const { return cores > 0 && network.ranks_per_node > cores; }
  // Of matmuls whose operands have a byte per element or less. Not kFloat8: an assumption of the
  // plan (with_matmul_format), which is not in files.
  NumberFormat narrow = NumberFormat::kFloat8;

  const ProductRate& rate(NumberFormat numbers) const {
    return rates[static_cast<std::size_t>(numbers)];
  }
  // Of matmuls with operands of so many bytes per element.
  const ProductRate& matmul_rate(std::size_t element) const {
    return rate(element == 1 ? narrow : format_of(element));
  }
  // Bytes/s of memory-bound ops of this name.
  double stream_bandwidth(NumberFormat numbers, const std::string& op) const;
  // The CPU, or a GPU that this machine need not have.
  Device device() const;
  // Speedup of a rank if only `busy` ranks of its node work, relative to all ranks working.
  double pace(double busy) const;
};

// A100-40G, A100-80G, A100-40G-PCIe, H100, H100-PCIe, H100-500W, H200, B200, B300, GB200, GB300,
// MI300X, CPU.
const std::vector<DeviceProfile>& listed_profiles();

std::string listed_names();  // "A100-40G, ..., CPU"

// The listed profile `name` (case-insensitive), or the profile in the file if it ends in .json.
// Throws ConfigError with the known names.
DeviceProfile find_profile(const std::string& name);

// JSON file, written by `trireme doctor --calibrate`. Throws EnvironmentError if it cannot be
// written.
void write_profile(const std::filesystem::path& path, const DeviceProfile& profile);
DeviceProfile read_profile(const std::filesystem::path& path);  // throws ConfigError

}  // namespace trireme
