#include "trainer/tools/plan/data_axis.h"

namespace trireme {
namespace {

struct DataGroups {
  explicit DataGroups(const MeshShape& mesh)
      : shard{static_cast<int>(mesh.data_shard * mesh.context), static_cast<int>(mesh.tensor)},
        replicate{static_cast<int>(mesh.data_replicate), shard.size * shard.stride},
        all{shard.size * replicate.size, shard.stride} {}
  GroupShape shard, replicate, all;
};

bool shares_memory(const Network& network, const GroupShape& group) {
  return network.shared && ranks_in_node(network, group) == group.size;
}

// One collective split into `count` equal messages; below 1 if several layers share a bucket.
DataMessages messages(const Network& links, Collective collective, const GroupShape& group,
                      double bytes, double count) {
  if (group.size < 2 || bytes <= 0) return {};
  Network network = links;
  if (shares_memory(links, group)) network.within = *links.shared;
  const double latency = collective_seconds(network, collective, group, 0);
  const double moving = collective_seconds(network, collective, group, bytes) - latency;
  return {moving + count * latency, bytes_sent(collective, group.size, bytes)};
}

DataMessages operator+(const DataMessages& a, const DataMessages& b) {
  return {a.seconds + b.seconds, a.bytes + b.bytes};
}

// ZeRO-2 and 3 communicate a layer at a time, ZeRO-0 and 1 a bucket at a time.
double count_of(const Workload& work, double parameters) {
  if (work.zero >= 2) return work.traits.messages_per_layer;
  return parameters * sizeof(float) / work.bucket_bytes;
}

}  // namespace

DataMessages gradient_messages(const Workload& work, const Network& network, double parameters) {
  const DataGroups groups(work.mesh);
  const double bytes = parameters * work.traits.gradient_bytes;
  const double count = count_of(work, parameters);
  if (work.zero == 0) return messages(network, Collective::kAllReduce, groups.all, bytes, count);
  return messages(network, Collective::kReduceScatter, groups.shard, bytes, count) +
         messages(network, Collective::kAllReduce, groups.replicate, bytes / groups.shard.size,
                  count);
}

DataMessages weight_messages(const Workload& work, const Network& network, double parameters) {
  const GroupShape shard = DataGroups(work.mesh).shard;
  // Ranks that share memory keep one copy of the weights.
  const bool in_common = work.zero < 3 && shares_memory(network, shard);
  if (work.zero == 0 || in_common) return {};
  const double element = work.numbers == NumberFormat::kFloat32 ? 4 : 2;
  return messages(network, Collective::kAllGather, shard, parameters * element,
                  count_of(work, parameters));
}

}  // namespace trireme
