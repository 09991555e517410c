#include "trainer/engine/memory_plan.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "model/device/devices.h"

namespace trireme {

std::array<std::pair<const char*, std::size_t>, 8> MemoryPlan::classes() const {
  return {{{"weights", weights},
           {"masters", masters},
           {"gradients", gradients},
           {"optimizer", optimizer},
           {"activations", activations * in_flight},
           {"workspace", workspace + products},
           {"data", data},
           {"communication", communication + buffers}}};
}

Arenas::Arenas(Device device)
    : weights(Arena::unbounded(device)),
      masters(Arena::unbounded(device)),
      gradients(Arena::unbounded(device)),
      optimizer(Arena::unbounded(device)),
      workspace(Arena::unbounded(device)),
      data(Arena::unbounded(device)),
      communication(Arena::unbounded(device)) {}

Arenas Arenas::unbounded(Device device, std::size_t in_flight) {
  Arenas arenas(device);
  for (std::size_t i = 0; i < in_flight; ++i) {
    arenas.activations.push_back(Arena::unbounded(device));
  }
  return arenas;
}

namespace {

// Of `bytes` at `memory`, where there is any; else on the device.
Arena arena_at(std::byte* memory, std::size_t bytes, Device device) {
  return memory ? Arena(memory, bytes) : Arena(bytes, device);
}

std::byte* behind(std::byte* memory, std::size_t bytes) {
  return memory ? memory + Arena::rounded(bytes) : nullptr;
}

}  // namespace

std::size_t Arenas::shared_bytes(const MemoryPlan& plan) {
  return Arena::rounded(plan.weights) + Arena::rounded(plan.gradients) +
         Arena::rounded(plan.communication);
}

Arenas::Arenas(const MemoryPlan& plan, Device device, const Shared& shared)
    : weights(arena_at(shared.weights ? shared.weights : shared.own, plan.weights, device)),
      masters(plan.masters, device),
      gradients(arena_at(behind(shared.own, plan.weights), plan.gradients, device)),
      optimizer(plan.optimizer, device),
      workspace(plan.workspace, device),
      data(plan.data, device),
      communication(arena_at(behind(behind(shared.own, plan.weights), plan.gradients),
                             plan.communication, device)),
      buffers(plan.buffers),
      products(plan.products),
      weights_in_common(shared.weights != nullptr) {
  for (std::size_t i = 0; i < plan.in_flight; ++i)
    activations.emplace_back(plan.activations, device);
}

MemoryPlan Arenas::peaks() const {
  MemoryPlan plan{.weights = weights.peak(),
                  .masters = masters.peak(),
                  .gradients = gradients.peak(),
                  .optimizer = optimizer.peak(),
                  .in_flight = activations.size(),
                  .workspace = workspace.peak(),
                  .data = data.peak(),
                  .communication = communication.peak(),
                  .buffers = buffers,
                  .products = products};
  for (const Arena& arena : activations)
    plan.activations = std::max(plan.activations, arena.peak());
  return plan;
}

std::size_t available_host_memory() {
  std::size_t available = std::numeric_limits<std::size_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    std::size_t kilobytes = 0;
    if (key == "MemAvailable:" && meminfo >> kilobytes) available = kilobytes * 1024;
  }
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::ifstream used_file("/sys/fs/cgroup/memory.current");
  std::size_t limit = 0;
  std::size_t used = 0;
  if (limit_file >> limit && used_file >> used) {  // "max" reads as no number: no limit
    available = std::min(available, limit > used ? limit - used : 0);
  }
  return available;
}

std::size_t available_memory(Device device, int ranks) {
  const std::size_t bytes =
      device.is_cuda() ? properties_of(device).free_bytes : available_host_memory();
  return bytes / static_cast<std::size_t>(ranks);
}

}  // namespace trireme
