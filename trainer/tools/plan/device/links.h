#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "model/device/planned_op.h"

namespace trireme {

// Bandwidth in each direction (full duplex) and latency of a message.
struct Link {
  std::string name;      // "NVLink", "InfiniBand"
  double bandwidth = 0;  // bytes/s per direction by the vendor
  double reached = 1;    // fraction of it that large messages reach
  double latency = 0;    // seconds
  // The same by NCCL's protocol LL128; 0: not between these devices.
  double ll128_latency = 0;
};

// Between the ranks of every group of `ranks`, all groups at work.
struct GroupLink {
  int ranks = 0;
  Link link;
  double lockstep = 0;  // Network::lockstep of ranks that wait in these groups
};

// Links within and between nodes. Every rank has its own link out of its node, as with one network
// card per GPU.
struct Network {
  int ranks_per_node = 1;
  Link within, between;
  // Whether communication overlaps computation. Without overlap the computing cores carry the
  // messages, and all communication is exposed.
  bool overlaps = true;
  // Fraction of a rank's multiprocessors that overlapped communication occupies.
  double occupied = 0;
  // Share by which each doubling of the ranks above 8 prolongs a step: all wait for the slowest.
  double straggling = 0;
  // Share by which ranks that wait for each other are slower than by themselves: on virtual cores,
  // whose speeds change apart, or on shared ones.
  double lockstep = 0;
  // `within` is the sum of equal links to each other rank of the node, not one link to a switch.
  bool pairwise = false;
  // Nodes of which a run may leave ranks unused (with_even_nodes).
  bool even = false;
  // Of a computer, which fails as a whole, if a node in the sense of `within` has several; 0: it
  // has not.
  int ranks_per_host = 0;
  // Replace `within` in smaller groups, each in those of at most its ranks, which ascend: where
  // ranks share cores a message waits until the scheduler has run them all.
  std::vector<GroupLink> within_groups = {};
  // Replaces `within` between data-parallel ranks of a node that read each other's memory.
  std::optional<Link> shared = {};

  // Of ranks that wait for each other in groups of so many.
  double lockstep_of(std::int64_t ranks) const;
  int ranks_of_host() const { return ranks_per_host > 0 ? ranks_per_host : ranks_per_node; }
  // Seconds by which communication of `sending` prolongs overlapped computation of `computing`.
  double waiting(double sending, double computing) const {
    return std::max(sending - computing, occupied * sending);
  }
};

// Ranks first, first + stride, ... of a mesh axis of a run with `world` ranks (0: many nodes).
// Nodes begin at multiples of ranks_per_node.
struct GroupShape {
  int size = 1;
  int stride = 1;
  int world = 0;
};

// Seconds of a collective by the alpha-beta model of a ring, or of a tree for small all-reduces.
// `bytes` is the size of the full tensor (all ranks' shards together). 0 in a group of one.
double collective_seconds(const Network& network, Collective collective, const GroupShape& group,
                          double bytes);

// Share by which waiting for the slowest of so many ranks prolongs their steps, without
// Network::lockstep.
double straggling(const Network& network, std::int64_t ranks);

// Of `even` nodes as many ranks as divide the run's evenly: of racks of 72 GPUs 64 in runs of 256.
Network with_even_nodes(Network network, std::int64_t ranks);

// Bytes that each rank sends, such as 2 (n - 1) / n of the tensor for an all-reduce.
double bytes_sent(Collective collective, int ranks, double bytes);

// The fewest ranks that a group of this shape has in one of its nodes. Of a size that does not
// divide a node, such as 6 of 8, some groups cross nodes, with 2 ranks in one: all wait for these.
int ranks_in_node(const Network& network, const GroupShape& group);
// Whether all of them may read each other's memory.
bool shares_memory(const Network& network, const GroupShape& group);

}  // namespace trireme
