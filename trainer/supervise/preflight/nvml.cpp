#include "trainer/supervise/preflight/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

namespace trireme::preflight {
namespace {

// Types and constants of NVML's C API.
using Status = int;  // 0: success
using Handle = void*;
constexpr int kUncorrected = 1, kSinceReset = 0, kMultiprocessors = 1, kCore = 0;
constexpr unsigned kMostLinks = 18;

struct Close {
  void operator()(void* library) const { ::dlclose(library); }
};

class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    started_ = call("nvmlInit_v2");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (started_) call("nvmlShutdown");
  }
  bool is_there() const { return library_ != nullptr; }
  bool started() const { return started_; }

  // Whether the library has the function and the call succeeded.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    if (!library_) return false;
    auto* function = reinterpret_cast<Status (*)(Arguments...)>(::dlsym(library_.get(), name));
    return function != nullptr && function(arguments...) == 0;
  }
  template <class Value, class... Arguments>
  std::optional<Value> ask(const char* name, Arguments... arguments) const {
    Value value{};
    if (!call(name, arguments..., &value)) return std::nullopt;
    return value;
  }

 private:
  std::unique_ptr<void, Close> library_;
  bool started_ = false;
};

}  // namespace

GpuHealth gpu_health(const std::string& bus_id) {
  const Nvml nvml;
  GpuHealth health;
  const auto unknown = [&health](const std::string& why) {
    health.unknown_because = why;
    return health;
  };
  if (!nvml.is_there()) return unknown("cannot open libnvidia-ml.so.1");
  if (!nvml.started()) return unknown("NVML failed to initialize");
  const auto gpu = nvml.ask<Handle>("nvmlDeviceGetHandleByPciBusId_v2", bus_id.c_str());
  if (!gpu) return unknown(fmt::format("NVML does not find a GPU at {}", bus_id));
  using Count = unsigned long long;
  const auto errors =
      nvml.ask<Count>("nvmlDeviceGetTotalEccErrors", *gpu, kUncorrected, kSinceReset);
  if (errors) health.uncorrected_errors = *errors;
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (nvml.call("nvmlDeviceGetRemappedRows", *gpu, &corrected, &uncorrected, &pending, &failed)) {
    health.row_remapping_failed = failed != 0;
  }
  const auto throttled = nvml.ask<Count>("nvmlDeviceGetCurrentClocksThrottleReasons", *gpu);
  if (throttled) health.throttled = *throttled;
  health.clock_mhz = nvml.ask<unsigned>("nvmlDeviceGetClockInfo", *gpu, kMultiprocessors);
  health.most_clock_mhz = nvml.ask<unsigned>("nvmlDeviceGetMaxClockInfo", *gpu, kMultiprocessors);
  health.temperature = nvml.ask<unsigned>("nvmlDeviceGetTemperature", *gpu, kCore);
  for (unsigned link = 0; link < kMostLinks; ++link) {
    const auto up = nvml.ask<unsigned>("nvmlDeviceGetNvLinkState", *gpu, link);
    if (!up) break;  // no further links
    ++(*up != 0 ? health.links_up : health.links_down);
  }
  return health;
}

std::string fault_of(const GpuHealth& health) {
  std::string fault;
  const auto add = [&](const std::string& what) {
    fault += fmt::format("{}{}", fault.empty() ? "" : ", ", what);
  };
  if (health.uncorrected_errors.value_or(0) > 0) {
    add(fmt::format("{} uncorrected ECC errors since the last reset", *health.uncorrected_errors));
  }
  if (health.row_remapping_failed.value_or(false)) add("memory row remapping failed");
  const std::uint64_t why = health.throttled.value_or(0);
  if (why & GpuHealth::kHardware) add("clocks throttled by the hardware");
  if (why & (GpuHealth::kSoftwareHot | GpuHealth::kHardwareHot))
    add("clocks throttled: temperature");
  if (why & GpuHealth::kPowerBrake) add("clocks throttled: power brake");
  return fault;
}

}  // namespace trireme::preflight
