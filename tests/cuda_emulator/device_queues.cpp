#include "tests/cuda_emulator/device_queues.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "tests/cuda_emulator/streams.h"

namespace trireme::emulator {
namespace {

struct Item {
  cudaStream_t stream;
  std::uint64_t position;  // in its stream
  Engine engine;
  std::function<cudaError_t()> work;  // null: a long kernel
  std::function<bool()> ready;
  std::string name;
  LongKernel kernel;
};

struct Running {
  cudaStream_t stream;
  LongKernel kernel;
};

struct EmulatedDevice {
  std::vector<std::deque<Item>> queues;
  std::vector<Running> running;
  std::vector<cudaStream_t> streams;
  std::set<const void*> loaded;
  std::size_t mapped = 0;
  int free_multiprocessors = 0;
};

std::vector<EmulatedDevice> devices;
bool is_lazy = false;

EmulatedDevice& current() {
  return devices.at(static_cast<std::size_t>(current_device()));
}

bool runs_on(const EmulatedDevice& device, cudaStream_t stream) {
  return std::any_of(device.running.begin(), device.running.end(),
                     [&](const Running& each) { return each.stream == stream; });
}

EmulatedDevice& device_of(cudaStream_t stream) {
  return devices.at(static_cast<std::size_t>(stream->device));
}

void push(Item item) {
  item.position = ++item.stream->queued;
  EmulatedDevice& device = device_of(item.stream);
  device.queues[item.stream->hardware_queue].push_back(std::move(item));
}

}  // namespace

void open_devices(const JobOptions& options) {
  const int queues = std::stoi(job_variable("CUDA_DEVICE_MAX_CONNECTIONS", "8"));
  require(queues >= 1 && queues <= 32, "CUDA_DEVICE_MAX_CONNECTIONS=", queues);
  is_lazy = job_variable("CUDA_MODULE_LOADING", "LAZY") == "LAZY";
  devices.assign(static_cast<std::size_t>(options.ranks), {});
  for (EmulatedDevice& device : devices) {
    device.queues.resize(static_cast<std::size_t>(queues));
    device.free_multiprocessors = options.multiprocessors;
  }
}

void close_devices() {
  for (const EmulatedDevice& device : devices) {
    for (const cudaStream_t stream : device.streams) stream->done = stream->queued;  // abandoned
  }
  devices.clear();
}

std::size_t hardware_queues() {
  return devices.front().queues.size();
}

void map_stream(cudaStream_t stream) {
  stream->device = current_device();
  EmulatedDevice& device = current();
  stream->hardware_queue = device.mapped++ % device.queues.size();
  device.streams.push_back(stream);
}

void unmap_stream(cudaStream_t stream) {
  auto& streams = device_of(stream).streams;
  streams.erase(std::remove(streams.begin(), streams.end(), stream), streams.end());
}

void queue_work(cudaStream_t stream, Engine engine, std::function<cudaError_t()> work,
                std::function<bool()> ready, std::string name) {
  push({stream, 0, engine, std::move(work), std::move(ready), std::move(name), {}});
}

void queue_kernel(cudaStream_t stream, LongKernel kernel) {
  require(kernel.multiprocessors <= job_options().multiprocessors, kernel.name,
          " needs more multiprocessors than a device has");
  push({stream, 0, Engine::kMultiprocessors, nullptr, kernel.ready, kernel.name, kernel});
}

void finish_kernel(cudaStream_t stream) {
  EmulatedDevice& device = device_of(stream);
  const auto found = std::find_if(device.running.begin(), device.running.end(),
                                  [&](const Running& each) { return each.stream == stream; });
  require(found != device.running.end(), "no kernel runs on the stream");
  device.free_multiprocessors += found->kernel.multiprocessors;
  device.running.erase(found);
  ++stream->done;
}

bool can_start(std::size_t device, std::size_t queue) {
  const EmulatedDevice& on = devices[device];
  if (on.queues[queue].empty()) return false;
  const Item& head = on.queues[queue].front();
  if (head.position != head.stream->done + 1 || runs_on(on, head.stream)) return false;
  const int needed = head.work ? 1 : head.kernel.multiprocessors;
  if (head.engine == Engine::kMultiprocessors && on.free_multiprocessors < needed) return false;
  return !head.ready || head.ready();
}

void start(std::size_t device, std::size_t queue) {
  EmulatedDevice& on = devices[device];
  const Item head = std::move(on.queues[queue].front());
  on.queues[queue].pop_front();
  if (head.work) {
    const cudaError_t error = head.work();
    if (error != cudaSuccess) head.stream->failed = error;
    ++head.stream->done;
    return;
  }
  on.free_multiprocessors -= head.kernel.multiprocessors;
  on.running.push_back({head.stream, head.kernel});
  head.kernel.begin();
}

void wait_for_running_kernels(const std::string& what) {
  const EmulatedDevice& device = current();
  if (device.running.empty()) return;
  wait_until([&device] { return device.running.empty(); }, what + ", for the running kernels");
}

cudaError_t wait_for_device(bool blocking_only) {
  std::vector<std::pair<cudaStream_t, std::uint64_t>> ends;
  for (const cudaStream_t stream : current().streams) {
    if (!blocking_only || stream->blocking) ends.emplace_back(stream, stream->queued);
  }
  const auto is_over = [ends] {
    return std::all_of(ends.begin(), ends.end(),
                       [](const auto& end) { return end.first->done >= end.second; });
  };
  if (!is_over()) wait_until(is_over, "all streams of its device");
  cudaError_t worst = cudaSuccess;
  for (const auto& end : ends) {
    if (end.first->failed != cudaSuccess) worst = std::exchange(end.first->failed, cudaSuccess);
  }
  return worst;
}

cudaError_t wait_for_stream(cudaStream_t stream, std::uint64_t position) {
  wait_until([=] { return stream->done >= position; },
             say("a stream on hardware queue ", stream->hardware_queue));
  return std::exchange(stream->failed, cudaSuccess);
}

void load_kernel(const void* kernel) {
  if (!is_lazy || !current().loaded.insert(kernel).second) return;
  wait_for_running_kernels("the load of a kernel");
}

bool devices_are_idle() {
  return std::all_of(devices.begin(), devices.end(), [](const EmulatedDevice& device) {
    return device.running.empty() && std::all_of(device.queues.begin(), device.queues.end(),
                                                 [](const auto& queue) { return queue.empty(); });
  });
}

std::string describe_devices() {
  std::string text;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const EmulatedDevice& device = devices[i];
    for (const Running& each : device.running) {
      text += say("\n  cuda:", i, ": ", each.kernel.name, " spins",
                  each.kernel.waits ? " for " + each.kernel.waits() : "");
    }
    for (std::size_t q = 0; q < device.queues.size(); ++q) {
      if (device.queues[q].empty()) continue;
      const Item& head = device.queues[q].front();
      const bool in_order = head.position == head.stream->done + 1 && !runs_on(device, head.stream);
      text += say("\n  cuda:", i, ": hardware queue ", q, " with ", device.queues[q].size(),
                  " launches: ", head.name, " waits ",
                  !in_order                     ? "for its stream"
                  : head.ready && !head.ready() ? "for what it depends on"
                                                : "for multiprocessors");
    }
  }
  return text;
}

}  // namespace trireme::emulator
