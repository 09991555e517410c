#include "trainer/tools/plan/calibrate/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/median.h"
#include "model/device/copy.h"
#include "model/device/devices.h"
#include "parallel/comm/self_communicator.h"
#include "trainer/engine/memory_plan.h"
#include "trainer/tools/plan/calibrate/calibrate_compute.h"
#include "trainer/tools/plan/calibrate/cpu_matmul.h"
#include "trainer/tools/plan/calibrate/waiting_ranks.h"

namespace trireme {
namespace {

// Of an operation. On CPUs, whose cores slow down for seconds, one in each of as many passes.
constexpr std::size_t kSamples = 5;

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

enum class Work : std::uint8_t { kNone, kBefore, kDuring };

// Fits the formulas of links.cpp to a small all-reduce and a large one of `memory` in groups, which
// together are the ranks that `all` times. With `work` ranks compute before or during them as in a
// step, in which those that share a core take turns; where they do so before, latencies are those
// of WaitingRanks.
Link link_of(Communicator& all, Communicator& group, Device device, MachinePace& pace,
             std::size_t samples, std::byte* memory, std::size_t large, int in_node, Work work,
             const std::string& name) {
  Stream stream(device);
  // Where ranks share cores a message takes as long as the scheduler makes it wait.
  Stopwatch stopwatch(all, stream, pace, work == Work::kNone ? samples : 3 * samples);
  CpuMatmul compute(work == Work::kDuring ? 512 : 256);
  const auto sum = [&](std::size_t bytes) {
    const Tensor tensor{memory, DType::kF32, {static_cast<std::int64_t>(bytes / 4)}, device};
    return stopwatch.together([&] {
      if (work == Work::kBefore) compute(stream);
      if (work != Work::kDuring) return group.all_reduce(stream, tensor, Reduce::kSum);
      Transfer transfer = group.start_all_reduce(stream, tensor, Reduce::kSum);
      compute(stream);
      transfer.wait();
    });
  };
  const int size = group.size();
  const double little = sum(64), much = sum(large);
  const double alone = work == Work::kDuring ? stopwatch.alone([&] { compute(stream); }) : 0;
  const double latency = std::max(little - alone, 0.0);
  const double moving = std::max(much - little, 1e-9);
  const double sent = bytes_sent(Collective::kAllReduce, size, static_cast<double>(large));
  const bool leaves = in_node < size;
  return {.name = name,
          .bandwidth = sent / moving / (leaves ? in_node : 1),
          .reached = 1,
          .latency = latency / (2.0 * (size - 1))};
}

using Groups = WaitingRanks::Groups;

// Groups of neighbors, in which each is half of the next larger one, of a single node whose ranks
// share cores.
Groups groups_within(World& world, const Communicator& node) {
  Groups groups;
  if (node.size() < world.size() || !share_cores(node)) return groups;
  for (int size = 2; size < node.size() && node.size() % size == 0; size *= 2) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), world.rank() / size * size);
    groups.push_back(world.split(fmt::format("calibration of {}", size), ranks));
  }
  return groups;
}

Network network_of(World& world, Communicator& all, Communicator& node, const Groups& groups,
                   Device device, MachinePace& pace, std::size_t samples,
                   const CalibrationSizes& sizes) {
  Network network = listed_network(device);
  network.ranks_per_node = node.size();
  if (!device.is_cuda()) network.overlaps = false;
  const Memory own(sizes.activations, device);
  // Where each rank has a core the difference to computation alone would be noise.
  const auto link = [&](Communicator& timed, Communicator& group, const std::string& where) {
    return link_of(timed, group, device, pace, samples, own.data(), sizes.activations, node.size(),
                   !device.is_cuda() && share_cores(node) ? Work::kBefore : Work::kNone,
                   world.transport() + where);
  };
  if (node.size() > 1) network.within = link(node, node, " within the node");
  for (const std::unique_ptr<Communicator>& group : groups) {
    network.within_groups.push_back(
        {group->size(), link(node, *group, fmt::format(" within {} ranks", group->size()))});
  }
  if (node.size() < world.size()) network.between = link(all, all, " between nodes");
  if (device.is_cuda()) return network;
  if (const std::unique_ptr<SharedMemory> memory = world.share(sizes.bucket)) {
    network.shared = link_of(node, node, device, pace, samples, memory->data(), sizes.bucket,
                             node.size(), Work::kDuring, "shared memory of the node");
  }
  return network;
}

// `link_in` returns the same link of each.
void take_medians(const std::vector<Network>& passes, Link& to, auto link_in) {
  std::vector<double> bandwidths, latencies;
  for (const Network& pass : passes) {
    const Link& link = link_in(pass);
    bandwidths.push_back(link.bandwidth);
    latencies.push_back(link.latency);
  }
  to.bandwidth = median(std::move(bandwidths));
  to.latency = median(std::move(latencies));
}

Network median_of(const std::vector<Network>& passes) {
  Network network = passes.front();
  take_medians(
      passes, network.within, [](const Network& n) -> auto& { return n.within; });
  take_medians(
      passes, network.between, [](const Network& n) -> auto& { return n.between; });
  for (std::size_t i = 0; i < network.within_groups.size(); ++i) {
    take_medians(
        passes, network.within_groups[i].link, [i](const Network& n) -> auto& {
          return n.within_groups[i].link;
        });
  }
  if (network.shared) {
    take_medians(
        passes, *network.shared, [](const Network& n) -> auto& { return *n.shared; });
  }
  return network;
}

void change_pace(Link& link, double factor) {
  link.bandwidth *= factor;
  link.latency /= factor;
}

// Of what was measured: links that this world does not have stay as listed. Of matmuls in
// NumberFormat::kHalf by `half_factor`; attention computes in float32 too.
void change_pace(DeviceProfile& profile, double factor, double half_factor, int ranks) {
  profile.memory_bandwidth *= factor;
  profile.launch /= factor;
  for (ProductRate& rate : profile.rates) {
    const bool is_half = &rate == &profile.rate(NumberFormat::kHalf);
    const double of_peak = is_half ? half_factor : factor;
    rate.peak *= of_peak;
    rate.flash *= factor / of_peak;
    rate.own_flash *= factor / of_peak;
  }
  Network& network = profile.network;
  if (network.ranks_per_node > 1) change_pace(network.within, factor);
  if (network.ranks_per_node < ranks) change_pace(network.between, factor);
  for (GroupLink& group : network.within_groups) change_pace(group.link, factor);
  if (network.shared) change_pace(*network.shared, factor);
}

}  // namespace

DeviceProfile calibrate(World& world, Device device, const CalibrationSizes& sizes) {
  const std::unique_ptr<Communicator> all = world.split("calibration", all_ranks(world));
  const std::unique_ptr<Communicator> node =
      world.split("calibration of a node", ranks_of_node(world));
  const bool on_cuda = device.is_cuda();
  const Groups groups = on_cuda ? Groups() : groups_within(world, *node);
  const double sharing = on_cuda ? 1 : ranks_per_core(*node);
  MachinePace pace(device, DType::kF32, sharing), half_pace(device, DType::kBf16, sharing);
  std::optional<WaitingRanks> waiting;
  if (!on_cuda && node->size() > 1) waiting.emplace(*node, groups, pace);
  DeviceProfile profile{
      .name = "CPU",
      .source = fmt::format("measured by trireme doctor --calibrate on {}, {} ranks",
                            world.hosts().front(), world.size()),
      .memory_bytes = static_cast<double>(available_host_memory()) / node->size(),
      .units = 1,
      .cores = on_cuda ? 0 : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)),
      .rates = {},
      .network = {}};
  if (on_cuda) {
    const DeviceProperties properties = properties_of(device);
    profile.name = properties.name;
    profile.memory_bytes = static_cast<double>(properties.memory_bytes);
    profile.units = properties.multiprocessors;
  }
  const std::size_t passes = on_cuda ? 1 : kSamples, samples = kSamples / passes;
  ComputeCalibration compute(*all, device, pace, half_pace, samples, sizes);
  std::vector<Network> networks;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    if (waiting) waiting->sample();
    networks.push_back(network_of(world, *all, *node, groups, device, pace, samples, sizes));
    compute.measure(profile);
  }
  profile.network = median_of(networks);
  change_pace(profile, pace.mean_over_first(), half_pace.mean_over_first(), world.size());
  if (waiting) waiting->fill(profile);
  return profile;
}

CopyRates measure_copies(Device device) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const Memory there(kBytes, device), here = Memory::pinned(kBytes, device);
  SelfCommunicator alone;
  Stream stream(device);
  MachinePace pace(device);
  Stopwatch stopwatch(alone, stream, pace);
  const auto rate = [&](std::byte* to, const std::byte* from) {
    return kBytes / stopwatch.alone([&] { copy_bytes(stream, to, from, kBytes); });
  };
  return {rate(there.data(), here.data()), rate(here.data(), there.data())};
}

}  // namespace trireme
