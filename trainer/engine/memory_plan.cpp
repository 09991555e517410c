#include "trainer/engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <numeric>

#include "model/device/devices.h"
#include "model/ops/elementwise.h"

namespace trireme {

std::size_t MemoryPlan::activations() const {
  std::size_t bytes = 0;
  for (const Pool& pool : in_flight) bytes += pool.slots * pool.activations;
  return bytes;
}

std::size_t MemoryPlan::slots() const {
  std::size_t count = 0;
  for (const Pool& pool : in_flight) count += pool.slots;
  return count;
}

std::size_t MemoryPlan::total() const {
  return weights + masters + gradients + optimizer + activations() + window * in_window +
         workspace + data + communication + buffers + products;
}

std::size_t MemoryPlan::host_total() const {
  std::size_t bytes = host.masters + host.optimizer;
  for (const Pool& pool : in_flight) bytes += pool.slots * pool.on_host;
  return bytes;
}

std::array<std::pair<const char*, std::size_t>, 8> MemoryPlan::classes() const {
  return {{{"weights", weights},
           {"masters", masters},
           {"gradients", gradients},
           {"optimizer", optimizer},
           {"activations", activations() + window * in_window},
           {"workspace", workspace + products},
           {"data", data},
           {"communication", communication + buffers}}};
}

MemoryPlan larger_of(const MemoryPlan& a, const MemoryPlan& b) {
  MemoryPlan most = a;
  const auto take = [&](std::size_t MemoryPlan::*part) { most.*part = std::max(a.*part, b.*part); };
  for (const auto part :
       {&MemoryPlan::weights, &MemoryPlan::masters, &MemoryPlan::gradients, &MemoryPlan::optimizer,
        &MemoryPlan::window, &MemoryPlan::in_window, &MemoryPlan::workspace, &MemoryPlan::data,
        &MemoryPlan::communication, &MemoryPlan::buffers, &MemoryPlan::products}) {
    take(part);
  }
  require(a.in_flight.size() == b.in_flight.size(), "plans of different schedules");
  for (std::size_t i = 0; i < most.in_flight.size(); ++i) {
    MemoryPlan::Pool& pool = most.in_flight[i];
    require(pool.slots == b.in_flight[i].slots, "plans of different schedules");
    pool.activations = std::max(pool.activations, b.in_flight[i].activations);
    pool.on_host = std::max(pool.on_host, b.in_flight[i].on_host);
  }
  most.host = {std::max(a.host.masters, b.host.masters),
               std::max(a.host.optimizer, b.host.optimizer)};
  return most;
}

std::string differences(const MemoryPlan& planned, const MemoryPlan& used) {
  std::string text;
  const auto add = [&](const char* name, std::size_t of_plan, std::size_t of_use) {
    if (of_plan == of_use) return;
    text +=
        fmt::format("{}{} {} planned, {} used", text.empty() ? "" : "; ", name, of_plan, of_use);
  };
  const auto of_plan = planned.classes(), of_use = used.classes();
  for (std::size_t i = 0; i < of_plan.size(); ++i) {
    add(of_plan[i].first, of_plan[i].second, of_use[i].second);
  }
  add("micro-batches in flight", planned.slots(), used.slots());
  add("pinned host memory", planned.host_total(), used.host_total());
  return text;
}

Arenas::Arenas(Device device)
    : weights(Arena::unbounded(device)),
      masters(Arena::unbounded(device)),
      gradients(Arena::unbounded(device)),
      optimizer(Arena::unbounded(device)),
      workspace(Arena::unbounded(device)),
      data(Arena::unbounded(device)),
      communication(Arena::unbounded(device)) {}

Arenas Arenas::unbounded(Device device, std::vector<int> slots, const Offload& offload) {
  Arenas arenas(device);
  if (offload.optimizer) {
    arenas.masters = Arena::unbounded();
    arenas.optimizer = Arena::unbounded();
  }
  for (int i = 0; i < std::accumulate(slots.begin(), slots.end(), 0); ++i) {
    arenas.activations.push_back(Arena::unbounded(device));
    if (offload.in_window > 0) arenas.offloaded.push_back(Arena::unbounded());
  }
  for (std::size_t i = 0; i < offload.in_window; ++i) {
    arenas.window.push_back(Arena::unbounded(device));
  }
  arenas.slots = std::move(slots);
  return arenas;
}

namespace {

// At `memory` unless that is null, else on the device.
Arena arena_at(std::byte* memory, std::size_t bytes, Device device) {
  return memory ? Arena(memory, bytes) : Arena(bytes, device);
}

// Pinned on the host if the plan has anything there, else on the device.
Arena arena_of(std::size_t on_device, std::size_t on_host, Device device) {
  return on_host > 0 ? Arena::pinned(on_host, device) : Arena(on_device, device);
}

// Of arenas [first, first + count), as far as there are any.
std::size_t largest_peak(const std::deque<Arena>& arenas, std::size_t first, std::size_t count) {
  std::size_t most = 0;
  for (std::size_t i = first; i < std::min(first + count, arenas.size()); ++i) {
    most = std::max(most, arenas[i].peak());
  }
  return most;
}

std::byte* behind(std::byte* memory, std::size_t bytes) {
  return memory ? memory + Arena::rounded(bytes) : nullptr;
}

}  // namespace

// In this order.
std::size_t Arenas::shared_bytes(const MemoryPlan& plan, bool workspace) {
  return Arena::rounded(plan.weights) + Arena::rounded(plan.gradients) +
         Arena::rounded(plan.communication) + (workspace ? Arena::rounded(plan.workspace) : 0);
}

Arenas::Arenas(const MemoryPlan& plan, Device device, const Shared& shared)
    : weights(arena_at(shared.weights ? shared.weights : shared.own, plan.weights, device)),
      masters(arena_of(plan.masters, plan.host.masters, device)),
      gradients(arena_at(behind(shared.own, plan.weights), plan.gradients, device)),
      optimizer(arena_of(plan.optimizer, plan.host.optimizer, device)),
      workspace(arena_at(shared.workspace ? behind(shared.own, shared_bytes(plan, false)) : nullptr,
                         plan.workspace, device)),
      data(plan.data, device),
      communication(arena_at(behind(behind(shared.own, plan.weights), plan.gradients),
                             plan.communication, device)),
      buffers(plan.buffers),
      products(plan.products),
      weights_in_common(shared.weights != nullptr) {
  for (const MemoryPlan::Pool& pool : plan.in_flight) {
    slots.push_back(static_cast<int>(pool.slots));
    for (std::size_t i = 0; i < pool.slots; ++i) {
      activations.emplace_back(pool.activations, device);
      if (plan.in_window > 0) offloaded.push_back(Arena::pinned(pool.on_host, device));
    }
  }
  for (std::size_t i = 0; i < plan.in_window; ++i) window.emplace_back(plan.window, device);
}

MemoryPlan Arenas::peaks() const {
  const auto on = [&](const Arena& arena, bool host) {
    const bool on_host = !(arena.device() == data.device());
    return on_host == host ? arena.peak() : 0;
  };
  std::vector<MemoryPlan::Pool> in_flight;
  std::size_t first = 0;
  for (const int of_pool : slots) {
    const auto count = static_cast<std::size_t>(of_pool);
    in_flight.push_back(
        {count, largest_peak(activations, first, count), largest_peak(offloaded, first, count)});
    first += count;
  }
  return {.weights = weights.peak(),
          .masters = on(masters, false),
          .gradients = gradients.peak(),
          .optimizer = on(optimizer, false),
          .window = largest_peak(window, 0, window.size()),
          .in_window = window.size(),
          .workspace = workspace.peak(),
          .data = data.peak(),
          .communication = communication.peak(),
          .buffers = buffers,
          .products = products,
          .in_flight = std::move(in_flight),
          .host = {.masters = on(masters, true), .optimizer = on(optimizer, true)}};
}

void Arenas::restart(Stream& stream) {
  for (Arena* const arena : {&gradients, &workspace, &data, &communication}) {
    ops::zero(stream, arena->ever_used());
  }
  stream.synchronize();
  for (Arena* const arena :
       {&weights, &masters, &gradients, &optimizer, &workspace, &data, &communication}) {
    arena->forget();
  }
  for (std::deque<Arena>* const several : {&activations, &window, &offloaded}) {
    for (Arena& arena : *several) arena.forget();
  }
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
  if (limit_file >> limit && used_file >> used) {  // "max", no limit, is not a number
    available = std::min(available, limit > used ? limit - used : 0);
  }
  return available;
}

std::size_t device_reserve(std::size_t memory_bytes) {
  return std::min(std::size_t{2} << 30, memory_bytes / 16);
}

std::size_t available_memory(Device device, int ranks) {
  std::size_t bytes = 0;
  if (device.is_cuda()) {
    const DeviceProperties properties = properties_of(device);
    const std::size_t reserve = device_reserve(properties.memory_bytes);
    bytes = properties.free_bytes - std::min(reserve, properties.free_bytes);
  } else {
    bytes = available_host_memory();
  }
  return bytes / static_cast<std::size_t>(ranks);
}

}  // namespace trireme
