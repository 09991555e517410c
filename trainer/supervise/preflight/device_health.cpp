#include <fmt/format.h>

#include "model/base/error.h"
#include "model/base/human.h"
#include "model/base/median.h"
#include "model/device/devices.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/memory_plan.h"
#include "trainer/supervise/preflight/check.h"
#include "trainer/supervise/preflight/nvml.h"

namespace trireme::preflight {
namespace {

template <class Value>
void put(Figures& figures, const char* key, const std::optional<Value>& value) {
  if (value) figures[key] = *value;
}

Figures measured_health(const Device device) {
  if (!device.is_cuda()) {
    return {{"name", "cpu"},
            {"memory_bytes", available_host_memory()},
            {"links_up", 0},
            {"unknown_because", ""}};
  }
  const DeviceProperties properties = properties_of(device);
  const GpuHealth health = gpu_health(properties.bus_id);
  if (const std::string fault = fault_of(health); !fault.empty()) {
    throw EnvironmentError(
        fmt::format("{} {} ({}): {}", say(device), properties.name, properties.bus_id, fault));
  }
  Figures figures{{"name", properties.name},
                  {"bus_id", properties.bus_id},
                  {"memory_bytes", properties.memory_bytes},
                  {"free_bytes", properties.free_bytes},
                  {"links_up", health.links_up},
                  {"links_down", health.links_down},
                  {"unknown_because", health.unknown_because}};
  put(figures, "uncorrected_errors", health.uncorrected_errors);
  put(figures, "throttled", health.throttled);
  put(figures, "clock_mhz", health.clock_mhz);
  put(figures, "most_clock_mhz", health.most_clock_mhz);
  put(figures, "temperature", health.temperature);
  return figures;
}

// All GPUs of a job must have the same model and the same number of links.
Judgment judge_health(const std::vector<Figures>& by_rank) {
  Judgment judgment;
  const Majority kind = majority(texts_of(by_rank, "name"));
  for (const int rank : kind.others) {
    judgment.faults.push_back({{rank},
                               fmt::format("device is {}, most ranks have {}",
                                           by_rank[rank]["name"].get<std::string>(), kind.value)});
  }
  const std::vector<double> links = numbers_of(by_rank, "links_up");
  const double usual = median(links);
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    if (links[rank] >= usual) continue;
    judgment.faults.push_back(
        {{static_cast<int>(rank)},
         fmt::format("{:.0f} NVLinks are up, the median is {:.0f}", links[rank], usual)});
  }
  std::vector<double> memory = numbers_of(by_rank, "memory_bytes");
  judgment.text = fmt::format(
      "{} x {}, {} each", by_rank.size(), kind.value,
      human_bytes(static_cast<std::uint64_t>(*std::min_element(memory.begin(), memory.end()))));
  if (usual > 0) judgment.text += fmt::format(", {:.0f} NVLinks up", usual);
  const std::string unknown = by_rank.front()["unknown_because"].get<std::string>();
  if (!unknown.empty()) judgment.text += fmt::format("; health unknown: {}", unknown);
  return judgment;
}

}  // namespace

Check device_health(const std::string& name, int local_rank) {
  return {"devices", [&name, local_rank] { return measured_health(open_device(name, local_rank)); },
          judge_health};
}

}  // namespace trireme::preflight
