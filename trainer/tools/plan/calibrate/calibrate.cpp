#include "trainer/tools/plan/calibrate/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <span>
#include <string_view>

#include "model/device/copy.h"
#include "model/device/devices.h"
#include "model/ops/gemm.h"
#include "model/tensor/host_tensor.h"
#include "parallel/comm/self_communicator.h"
#include "trainer/engine/memory_plan.h"
#include "trainer/tools/plan/calibrate/calibrate_compute.h"
#include "trainer/tools/plan/calibrate/shared_cores.h"

namespace trireme {
namespace {

// Links that this world does not have.
Network listed_network(Device device) {
  if (!device.is_cuda()) return find_profile("CPU").network;
  const std::string name = properties_of(device).name;
  for (const char* known : {"A100", "H200", "B200"}) {
    if (name.find(known) == std::string::npos) continue;
    return find_profile(known == std::string_view("A100") ? "A100-80G" : known).network;
  }
  return find_profile("H100").network;
}

std::vector<int> ranks_of_node(const World& world) {
  std::vector<int> ranks;
  const std::string& host = world.hosts()[static_cast<std::size_t>(world.rank())];
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.hosts()[static_cast<std::size_t>(rank)] == host) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> all_ranks(const World& world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

// Computation on the CPU that overlaps communication.
class SomeMatmul {
 public:
  explicit SomeMatmul(std::int64_t side) : side_(side) {}
  void operator()(Stream& stream) {
    const Tensor all{memory_.data(), DType::kF32, {3 * side_, side_}, Device{}};
    ops::gemm(stream, all.row_slice(0, side_), all.row_slice(side_, side_),
              all.row_slice(2 * side_, side_), {});
  }

 private:
  std::int64_t side_;
  Memory memory_{3 * static_cast<std::size_t>(side_ * side_) * sizeof(float), Device{}};
};

// Fits the formulas of links.cpp to seconds of a small all-reduce and of a large one.
Link fitted_link(double little, double all, int size, int in_node, std::size_t large,
                 const std::string& name) {
  const double moving = std::max(all - little, 1e-9);
  const double sent = bytes_sent(Collective::kAllReduce, size, static_cast<double>(large));
  return {.name = name,
          .bandwidth = sent / moving / (in_node < size ? in_node : 1),
          .reached = 1,
          .latency = std::max(little, 0.0) / (2.0 * (size - 1))};
}

constexpr std::size_t kLittle = 64;

Tensor of_bytes(std::byte* memory, std::size_t bytes, Device device) {
  return {memory, DType::kF32, {static_cast<std::int64_t>(bytes / sizeof(float))}, device};
}

Link link_of(Communicator& ranks, Device device, std::byte* memory, std::size_t large, int in_node,
             const std::string& name) {
  Stream stream(device);
  Stopwatch stopwatch(ranks, stream);
  const auto sum = [&](std::size_t bytes) {
    return stopwatch.together(
        [&] { ranks.all_reduce(stream, of_bytes(memory, bytes, device), Reduce::kSum); });
  };
  const double little = sum(kLittle);
  return fitted_link(little, sum(large), ranks.size(), in_node, large, name);
}

// Of memory that the ranks share, while they compute as in a step; samples alternate, because the
// speed of the cores changes. `network` says how long ranks that share cores wait for each other.
Link shared_link(Communicator& ranks, std::byte* memory, std::size_t large,
                 const Network& network) {
  constexpr int kRoundsOfLink = 6;
  Stream stream(Device{});
  Stopwatch stopwatch(ranks, stream);
  SomeMatmul compute(512);
  const auto product = [&] { compute(stream); };
  const auto sum = [&](std::size_t bytes) {
    return [&, tensor = of_bytes(memory, bytes, Device{})] {
      Transfer transfer = ranks.start_all_reduce(stream, tensor, Reduce::kSum);
      compute(stream);
      transfer.wait();
    };
  };
  const double once = stopwatch.alone(product);
  std::vector<double> alone, little, all;
  sum(large)();
  for (int round = 0; round < kRoundsOfLink; ++round) {
    alone.push_back(stopwatch.sample_alone(product));
    little.push_back(stopwatch.sample_together(sum(kLittle), stopwatch.calls_of(once)));
    all.push_back(stopwatch.sample_together(sum(large), stopwatch.calls_of(once)));
  }
  const double computing = middle_mean(alone);
  const double before = computing + network.waiting_for_last(ranks.size(), computing);
  return fitted_link(middle_mean(little) - before, middle_mean(all) - before, ranks.size(),
                     ranks.size(), large, "shared memory of the node");
}

// Whether the ranks of a node outnumber its cores, on any node; not of nodes with different numbers
// of ranks, whose groups would differ.
bool share_cores(const World& world, Communicator& all) {
  const auto ranks = static_cast<float>(world.local_size());
  const bool own = world.local_size() > sysconf(_SC_NPROCESSORS_ONLN);
  std::array<float, 3> most{own ? 1.0F : 0.0F, ranks, -ranks};
  Stream host(Device{});
  all.all_reduce(host, host_tensor(std::span(most)), Reduce::kMax);
  return most[0] > 0 && most[1] == -most[2];
}

Network network_of(World& world, Communicator& all, Communicator& node, Device device,
                   const CalibrationSizes& sizes) {
  Network network = listed_network(device);
  network.ranks_per_node = node.size();
  if (!device.is_cuda()) network.overlaps = false;
  const Memory own(sizes.activations, device);
  const auto link = [&](Communicator& ranks, const char* where) {
    return link_of(ranks, device, own.data(), sizes.activations, node.size(),
                   world.transport() + where);
  };
  if (node.size() > 1) network.within = link(node, " within the node");
  if (node.size() < world.size()) network.between = link(all, " between nodes");
  if (device.is_cuda()) return network;
  if (share_cores(world, all)) {
    network.shared_cores = measure_shared_cores(world, ranks_of_node(world), sizes.activations);
  }
  if (const std::unique_ptr<SharedMemory> memory = world.share(sizes.bucket)) {
    network.shared = shared_link(node, memory->data(), sizes.bucket, network);
  }
  return network;
}

}  // namespace

DeviceProfile calibrate(World& world, Device device, const CalibrationSizes& sizes) {
  const std::unique_ptr<Communicator> all = world.split("calibration", all_ranks(world));
  const std::unique_ptr<Communicator> node =
      world.split("calibration of a node", ranks_of_node(world));
  const bool on_cuda = device.is_cuda();
  DeviceProfile profile{
      .name = "CPU",
      .source = fmt::format("measured by trireme doctor --calibrate on {}, {} ranks",
                            world.hosts().front(), world.size()),
      .memory_bytes = static_cast<double>(available_host_memory()) / node->size(),
      .units = 1,
      .cores = on_cuda ? 0 : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)),
      .rates = {},
      .network = network_of(world, *all, *node, device, sizes)};
  if (on_cuda) {
    const DeviceProperties properties = properties_of(device);
    profile.name = properties.name;
    profile.memory_bytes = static_cast<double>(properties.memory_bytes);
    profile.units = properties.multiprocessors;
  }
  ComputeCalibration compute(*all, device, sizes);
  compute.fill(profile);
  return profile;
}

CopyRates measure_copies(Device device) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const Memory there(kBytes, device), here = Memory::pinned(kBytes, device);
  SelfCommunicator alone;
  Stream stream(device);
  Stopwatch stopwatch(alone, stream);
  const auto rate = [&](std::byte* to, const std::byte* from) {
    return kBytes / stopwatch.alone([&] { copy_bytes(stream, to, from, kBytes); });
  };
  return {rate(there.data(), here.data()), rate(here.data(), there.data())};
}

}  // namespace trireme
