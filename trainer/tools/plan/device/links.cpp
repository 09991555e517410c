#include "trainer/tools/plan/device/links.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trireme {
namespace {

double rate(const Link& link) {
  return link.bandwidth * link.reached;
}

// Straggling of runs of more ranks than these was fitted on nodes of 8.
constexpr double kRanksWithoutStraggling = 8;

// Of a rank to `others` of its node, all at once.
double rate_within(const Network& network, int others) {
  const double links = network.pairwise ? others / (network.ranks_per_node - 1.0) : 1;
  return rate(network.within) * std::min(links, 1.0);
}

// Bandwidth of a ring over the group; all ranks of a node share the traffic that leaves it. Between
// pairs of ranks there are as many rings as links.
double ring_rate(const Network& network, int size, int in_node) {
  if (in_node == 1) return rate(network.between);
  const double within = rate_within(network, in_node - 1);
  return in_node == size ? within : std::min(within, in_node * rate(network.between));
}

// Latency of `laps` around the ring.
double ring_latency(const Network& network, int size, int in_node, double laps,
                    double Link::*latency) {
  const double nodes = size / static_cast<double>(in_node);
  const double crossings = in_node == size ? 0 : nodes;
  return laps *
         ((size - crossings) * network.within.*latency + crossings * network.between.*latency);
}

// By NCCL (v2.19.3, src/graph/tuning.cc: hwLat, baseLat and busBw). Its protocol LL128 has less
// latency per step and less bandwidth, least with one rank per node, and takes longer to start.
// Trees reach less of the bandwidth than rings.
constexpr double kLl128Rate = 0.92, kLl128RateAlone = 0.7, kLl128Start = (14 - 8.4) * 1e-6,
                 kTreeRate = 0.92;

bool has_ll128(const Network& network, int size, int in_node) {
  const bool crosses = in_node < size;
  return network.within.ll128_latency > 0 && (!crosses || network.between.ll128_latency > 0);
}

// Seconds of `laps` around the ring in which `sent` bytes leave a rank.
double ring_seconds(const Network& network, int size, int in_node, double laps, double sent) {
  const double moving = sent / ring_rate(network, size, in_node);
  const double usual = moving + ring_latency(network, size, in_node, laps, &Link::latency);
  if (!has_ll128(network, size, in_node)) return usual;
  const double share = in_node == 1 ? kLl128RateAlone : kLl128Rate;
  return std::min(usual, moving / share + kLl128Start +
                             ring_latency(network, size, in_node, laps, &Link::ll128_latency));
}

double tree_latency(const Network& network, int size, int in_node) {
  const double nodes = std::ceil(size / static_cast<double>(in_node));
  return 2 * ((in_node - 1) * network.within.latency +
              std::ceil(std::log2(nodes)) * network.between.latency);
}

}  // namespace

int ranks_in_node(const Network& network, const GroupShape& group) {
  const int node = network.ranks_per_node, stride = std::max(group.stride, 1);
  if (group.world > 0 && group.world <= node) return group.size;
  return node % stride == 0 ? std::gcd(node / stride, group.size) : 1;
}

bool shares_memory(const Network& network, const GroupShape& group) {
  return network.shared && ranks_in_node(network, group) == group.size;
}

double Network::lockstep_of(std::int64_t ranks) const {
  if (ranks < 2) return 0;
  for (const GroupLink& smaller : within_groups) {
    if (ranks <= smaller.ranks) return smaller.lockstep;
  }
  return lockstep;
}

double straggling(const Network& network, std::int64_t ranks) {
  const double nodes = static_cast<double>(ranks) / kRanksWithoutStraggling;
  return network.straggling * std::log2(std::max(nodes, 1.0));
}

Network with_even_nodes(Network network, std::int64_t ranks) {
  if (!network.even) return network;
  std::int64_t most = std::min<std::int64_t>(network.ranks_per_node, ranks);
  while (ranks % most != 0) --most;
  // A run that hardly divides, such as of a prime number of ranks, fills nodes one by one.
  if (most > network.ranks_per_node / 2 || ranks <= network.ranks_per_node) {
    network.ranks_per_node = static_cast<int>(most);
  }
  return network;
}

double bytes_sent(Collective collective, int ranks, double bytes) {
  if (ranks < 2) return 0;
  const double others = (ranks - 1.0) / ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * others * bytes;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return others * bytes;
    case Collective::kBroadcast:
    case Collective::kSend:
      return bytes;
  }
  return 0;
}

double collective_seconds(const Network& network, Collective collective, const GroupShape& group,
                          double bytes) {
  if (group.size < 2) return 0;
  const int in_node = ranks_in_node(network, group);
  for (const GroupLink& smaller : network.within_groups) {
    if (in_node > smaller.ranks) continue;
    Network own = network;
    own.within = smaller.link;
    own.within_groups.clear();
    return collective_seconds(own, collective, group, bytes);
  }
  const double sent = bytes_sent(collective, group.size, bytes);
  if (collective == Collective::kSend) {
    if (in_node == group.size) return network.within.latency + sent / rate_within(network, 1);
    return network.between.latency + sent / rate(network.between);
  }
  if (collective == Collective::kAllToAll) {
    // Both kinds of links at once.
    const double near = (in_node - 1.0) / (group.size - 1.0);
    const double within = network.within.latency +
                          (in_node > 1 ? sent * near / rate_within(network, in_node - 1) : 0);
    if (in_node == group.size) return within;
    return std::max(within, network.between.latency + sent * (1 - near) / rate(network.between));
  }
  const double laps = collective == Collective::kAllReduce ? 2 : 1;
  const double ring = ring_seconds(network, group.size, in_node, laps, sent);
  if (collective != Collective::kAllReduce) return ring;
  // A tree moves all bytes up and down, a ring only 2 (n - 1) / n of them.
  const double reached = has_ll128(network, group.size, in_node) ? kTreeRate : 1;
  const double tree = 2 * bytes / (reached * ring_rate(network, group.size, in_node));
  return std::min(ring, tree + tree_latency(network, group.size, in_node));
}

}  // namespace trireme
