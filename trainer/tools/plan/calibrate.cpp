#include "trainer/tools/plan/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include "model/ops/gemm.h"
#include "trainer/engine/memory_plan.h"
#include "trainer/tools/plan/calibrate_compute.h"

namespace trireme {
namespace {

// Links that this world does not have.
const Network& listed_network() {
  static const Network kNetwork = find_profile("CPU").network;
  return kNetwork;
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

// Typical message sizes of a run: activations between tensor ranks, buckets between data ranks.
constexpr std::size_t kActivations = std::size_t{1} << 19, kBucket = std::size_t{4} << 20;

// Computation that overlaps the communication.
class ConcurrentMatmul {
 public:
  void operator()(Stream& stream) {
    const Tensor all{memory_.data(), DType::kF32, {3 * kSide, kSide}, Device{}};
    ops::gemm(stream, all.row_slice(0, kSide), all.row_slice(kSide, kSide),
              all.row_slice(2 * kSide, kSide), {});
  }

 private:
  static constexpr std::int64_t kSide = 512;
  Memory memory_{3 * kSide * kSide * sizeof(float), Device{}};
};

// Fits the formulas of links.cpp to a small all-reduce and a large one of `memory`.
// `overlaps`: asynchronous all-reduces, which overlap computation.
Link link_of(Communicator& ranks, std::byte* memory, std::size_t large, int in_node, bool overlaps,
             const char* name) {
  Stopwatch stopwatch(ranks);
  Stream stream;
  ConcurrentMatmul compute;
  const auto sum = [&](std::size_t bytes) {
    const Tensor tensor{memory, DType::kF32, {static_cast<std::int64_t>(bytes / 4)}, Device{}};
    return stopwatch.together([&] {
      if (!overlaps) return ranks.all_reduce(stream, tensor, Reduce::kSum);
      Transfer transfer = ranks.start_all_reduce(stream, tensor, Reduce::kSum);
      compute(stream);
      transfer.wait();
    });
  };
  const int size = ranks.size();
  const double little = sum(64), all = sum(large);
  const double alone = overlaps ? stopwatch.alone([&] { compute(stream); }) : 0;
  const double latency = std::max(little - alone, 0.0);
  const double moving = std::max(all - little, 1e-9);
  const double sent = bytes_sent(Collective::kAllReduce, size, static_cast<double>(large));
  const bool leaves = in_node < size;
  return {.name = name,
          .bandwidth = sent / moving / (leaves ? in_node : 1),
          .reached = 1,
          .latency = latency / (2.0 * (size - 1))};
}

Network network_of(World& world, Communicator& all, Communicator& node) {
  Network network = listed_network();
  network.ranks_per_node = node.size();
  network.overlaps = false;
  Memory own(kActivations, Device{});
  if (node.size() > 1) {
    network.within =
        link_of(node, own.data(), kActivations, node.size(), false, "MPI within the node");
  }
  if (const std::unique_ptr<SharedMemory> memory = world.share(kBucket)) {
    network.shared =
        link_of(node, memory->data(), kBucket, node.size(), true, "shared memory of the node");
  }
  if (node.size() < world.size()) {
    network.between = link_of(all, own.data(), kActivations, node.size(), false, "network");
  }
  return network;
}

}  // namespace

DeviceProfile calibrate(World& world) {
  const std::unique_ptr<Communicator> all = world.split("calibration", all_ranks(world));
  const std::unique_ptr<Communicator> node =
      world.split("calibration of a node", ranks_of_node(world));
  DeviceProfile profile{
      .name = "CPU",
      .source = fmt::format("measured by trireme doctor --calibrate on {}, {} ranks",
                            world.hosts().front(), world.size()),
      .memory_bytes = static_cast<double>(available_host_memory()) / node->size(),
      .units = 1,
      .cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)),
      .rates = {},
      .network = network_of(world, *all, *node)};
  ComputeCalibration compute(*all);
  compute.fill(profile);
  return profile;
}

}  // namespace trireme
