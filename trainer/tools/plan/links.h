#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// What a rank can send while it receives as much, and what every message takes beside that.
struct Link {
  std::string name;      // "NVLink", "InfiniBand"
  double bandwidth = 0;  // bytes/s each way, the vendor's
  double reached = 1;    // of it, by large messages
  double latency = 0;    // seconds
};

// Two levels of links. Every rank has its own link out of its node, as where each GPU has a
// network card.
struct Network {
  int ranks_per_node = 1;
  Link within, between;
  // Whether messages move while their ranks compute; where they do not, the cores that compute
  // carry them, and nothing hides them.
  bool beside = true;
  // Of a rank's processors, held by messages while they move beside what it computes.
  double held = 0;
  // What data ranks of a node have instead of `within`, where they read each other's memory.
  std::optional<Link> shared = {};

  // Seconds that work of `computing` takes longer beside messages of `sending`.
  double waiting(double sending, double computing) const {
    return std::max(sending - computing, held * sending);
  }
};

// Ranks first, first + stride, ...: what a mesh axis groups. Nodes begin at multiples of
// ranks_per_node.
struct GroupShape {
  int size = 1;
  int stride = 1;
};

enum class Collective : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kSend };

// Seconds for `bytes`, the size of the whole (of all ranks' parts where these differ), by
// alpha-beta: rings, for the sum of little a tree. 0 in a group of one.
double collective_seconds(const Network& network, Collective collective, const GroupShape& group,
                          double bytes);

// Bytes that each rank sends: 2 (n - 1) / n of the whole for an all-reduce.
double bytes_sent(Collective collective, int ranks, double bytes);

// Ranks of the group in a node.
int ranks_in_node(const Network& network, const GroupShape& group);

}  // namespace trireme
