#include "trainer/engine/matrix_peak.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/device/cpu/processor.h"
#include "model/device/devices.h"
#include "model/ops/gemm.h"
#include "model/tensor/arena.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

// Of what is measured now; what was kept and is more cannot be of this machine.
constexpr double kMostTimes = 100;
// FLOP/s that no device reaches.
constexpr double kOfNoDevice = 1e18;
constexpr std::int64_t kKeptSeconds = 3600;

std::int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// As the cache has it, a number by a key.
struct KeptPeak {
  double flops_per_second = 0;
  std::int64_t measured_at = 0;  // seconds since 1970

  bool is_recent() const {
    const std::int64_t age = seconds_since_1970() - measured_at;
    return age >= 0 && age < kKeptSeconds;
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KeptPeak, flops_per_second, measured_at)

// Nothing if the cache has no sound one.
std::optional<KeptPeak> kept_peak(const nlohmann::json& peaks, const std::string& key) {
  try {
    const auto kept = peaks.at(key).get<KeptPeak>();
    if (kept.flops_per_second > 0 && kept.flops_per_second < kOfNoDevice) return kept;
  } catch (const nlohmann::json::exception&) {  // missing, damaged or an older version's
  }
  return std::nullopt;
}

std::size_t bytes_of(std::int64_t side, DType compute) {
  return 3 * static_cast<std::size_t>(side * side) * size_of(compute) + 3 * Arena::kAlignment;
}

// A product of square matrices, after a first run that chose its algorithm.
class SquareProduct {
 public:
  SquareProduct(std::int64_t side, DType compute, Device device)
      : arena_(bytes_of(side, compute), device),
        stream_(device),
        a_(arena_.take({side, side}, compute)),
        b_(arena_.take({side, side}, compute)),
        c_(arena_.take({side, side}, compute)) {
    seconds();
  }
  double seconds() {
    const auto start = Clock::now();
    ops::gemm(stream_, c_, a_, b_, {});
    stream_.synchronize();
    return seconds_since(start);
  }

 private:
  Arena arena_;
  Stream stream_;
  Tensor a_, b_, c_;
};

// Large enough for the device to be at its best, small enough to be quick and to leave the
// device's memory to the run.
std::int64_t side_for(DType compute, Device device) {
  if (!device.is_cuda()) return 1024;
  constexpr std::int64_t kMost = 8192;
  constexpr double kLongEnough = 1e-3;
  std::int64_t side = 256;
  while (side < kMost && bytes_of(2 * side, compute) < properties_of(device).free_bytes / 2 &&
         SquareProduct(side, compute, device).seconds() < kLongEnough) {
    side *= 2;
  }
  return side;
}

}  // namespace

double measured_matrix_peak(DType compute, Device device) {
  constexpr double kSeconds = 0.25;
  const std::int64_t side = side_for(compute, device);
  SquareProduct product(side, compute, device);
  double least = product.seconds();
  const auto start = Clock::now();
  while (seconds_since(start) < kSeconds) least = std::min(least, product.seconds());
  return 2 * std::pow(static_cast<double>(side), 3) / least;
}

double best_matrix_peak(DType compute, Device device, int threads,
                        const std::filesystem::path& folder) {
  if (folder.empty()) return measured_matrix_peak(compute, device);
  const auto& [processor, stepping] = cpu::processor();
  const std::string key = device.is_cuda() ? say(properties_of(device).name, ", ", name_of(compute))
                                           : say(processor, " ", stepping, ", ", threads,
                                                 " threads, ", name_of(compute));
  const std::filesystem::path file = folder / "matrix-peaks.json";
  double best = 0;
  try {
    nlohmann::json peaks = nlohmann::json::object();
    if (std::filesystem::exists(file)) {
      peaks = nlohmann::json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
      if (!peaks.is_object()) peaks = nlohmann::json::object();  // damaged: start over
    }
    const std::optional<KeptPeak> kept = kept_peak(peaks, key);
    if (kept && kept->is_recent()) return kept->flops_per_second;
    best = measured_matrix_peak(compute, device);
    if (kept && kept->flops_per_second < kMostTimes * best) {
      best = std::max(best, kept->flops_per_second);
    }
    peaks[key] = KeptPeak{best, seconds_since_1970()};
    make_folders(folder);
    replace_text(file, peaks.dump(1) + "\n");
  } catch (const Error&) {  // the first lines of the run show the peak in use
  }
  return best > 0 ? best : measured_matrix_peak(compute, device);
}

}  // namespace trireme
