#include "trainer/engine/peak_cache.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme {
namespace {

// Of what is measured now; a cached peak that is more cannot be of this machine.
constexpr double kMostTimes = 100;
// FLOP/s that no device reaches.
constexpr double kOfNoDevice = 1e18;
constexpr std::int64_t kConfirmedSeconds = 3600;
// Two measurements of an idle device differ by less.
constexpr double kSpread = 0.05;

std::int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// An entry of the cache.
struct CachedPeak {
  double flops_per_second = 0;
  // Seconds since 1970 of the last measurement that came near it; 0: it was measured only once.
  std::int64_t confirmed_at = 0;

  bool is_confirmed() const {
    const std::int64_t age = seconds_since_1970() - confirmed_at;
    return age >= 0 && age < kConfirmedSeconds;
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CachedPeak, flops_per_second, confirmed_at)

// Nothing if the cache has no valid entry of that key.
std::optional<CachedPeak> find(const nlohmann::json& peaks, const std::string& key) {
  try {
    const auto cached = peaks.at(key).get<CachedPeak>();
    if (cached.flops_per_second > 0 && cached.flops_per_second < kOfNoDevice) return cached;
  } catch (const nlohmann::json::exception&) {  // missing, damaged or an older version's
  }
  return std::nullopt;
}

// The entry after a measurement.
CachedPeak updated(const std::optional<CachedPeak>& cached, double measured) {
  if (!cached || cached->flops_per_second > kMostTimes * measured) return {measured, 0};
  const double best = std::max(measured, cached->flops_per_second);
  const double least = std::min(measured, cached->flops_per_second);
  return {best, least > (1 - kSpread) * best ? seconds_since_1970() : 0};
}

nlohmann::json read_peaks(const std::filesystem::path& file) {
  if (std::filesystem::exists(file)) {
    auto peaks = nlohmann::json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
    if (peaks.is_object()) return peaks;
  }
  return nlohmann::json::object();  // a damaged file is replaced
}

}  // namespace

double cached_peak(const std::filesystem::path& folder, const std::string& key,
                   const std::function<double()>& measure) {
  if (folder.empty()) return measure();
  const std::filesystem::path file = folder / "matrix-peaks.json";
  CachedPeak entry;
  try {
    nlohmann::json peaks = read_peaks(file);
    const std::optional<CachedPeak> cached = find(peaks, key);
    if (cached && cached->is_confirmed()) return cached->flops_per_second;
    entry = updated(cached, measure());
    peaks[key] = entry;
    make_folders(folder);
    replace_text(file, peaks.dump(1) + "\n");
  } catch (const Error&) {  // the first lines of the run show the peak in use
  }
  return entry.flops_per_second > 0 ? entry.flops_per_second : measure();
}

}  // namespace trireme
