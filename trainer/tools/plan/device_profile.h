#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trainer/tools/plan/links.h"

namespace trireme {

// What the factors of matrix products are stored as.
enum class Numbers : std::uint8_t { kFloat32, kHalf, kFloat8 };  // kHalf: bfloat16, float16
constexpr int kNumbersKinds = 3;
const char* name_of(Numbers numbers);  // "float32", "half", "float8"

// What products of one kind of numbers reach. A product of rows x columns with sums of `depth`
// factors takes 2 rows columns depth / (peak * product) seconds, times 1 + half_depth / depth,
// with its result rounded up to whole waves of tiles over the device's units.
struct ProductRate {
  double peak = 0;        // FLOP/s, dense, the vendor's; 0: the device cannot
  double product = 0;     // of the peak, reached by large products
  double half_depth = 0;  // factors in a sum at which half of that is reached
  double flash = 0;       // of the peak, reached by fused attention, on the half that it computes

  // What a measured device has beside: products take half_rows / rows and half_columns / columns
  // longer too, and attention half_width / width of a head and half_keys / keys.
  double half_rows = 0, half_columns = 0;
  double half_width = 0, half_keys = 0;
  // Of the memory's bandwidth, by operations of that name (streams.h); others reach `streamed`.
  std::map<std::string, double> streams = {};
};

// A device (or, for a CPU, one rank of it), its memory and its links, as the planner sees it.
struct DeviceProfile {
  std::string name;    // as --gpu takes it
  std::string source;  // where the figures are from
  double memory_bytes = 0;
  double memory_bandwidth = 0;  // bytes/s, the vendor's
  double streamed = 0;          // of it, reached by operations bound by memory
  double launch = 0;            // seconds that every operation takes at least
  int units = 1;                // multiprocessors: work comes in multiples of them
  int cores = 0;                // that the ranks of a node share; 0: each has its own
  std::array<ProductRate, kNumbersKinds> rates;  // by Numbers
  Network network;

  const ProductRate& rate(Numbers numbers) const {
    return rates[static_cast<std::size_t>(numbers)];
  }
  // Bytes/s of an operation that is bound by memory.
  double stream_bandwidth(Numbers numbers, const std::string& operation) const;
  // How much faster than with all ranks at work a rank is when `busy` of its node's are.
  double pace(double busy) const;
};

// A100-40G, A100-80G, A100-40G-PCIe, H100, H100-PCIe, H100-500W, H200, B200, CPU.
const std::vector<DeviceProfile>& listed_profiles();

// The one called `name`, whatever its case, or when it ends in .json the one in that file.
// Throws ConfigError, which names those there are.
DeviceProfile find_profile(const std::string& name);

// As `trireme doctor --calibrate` writes and the planner reads it.
void write_profile(const std::filesystem::path& path, const DeviceProfile& profile);
DeviceProfile read_profile(const std::filesystem::path& path);  // ConfigError names what is wrong

}  // namespace trireme
