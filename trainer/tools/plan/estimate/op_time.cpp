#include "trainer/tools/plan/estimate/op_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "model/base/error.h"
#include "model/ops/attention.h"
#include "model/ops/grouped_gemm.h"

namespace trireme {
namespace {

// Output tiles of a multiprocessor, and the efficiency of smaller tiles relative to the largest.
struct Tile {
  double rows, columns, reached;
};
constexpr std::array<Tile, 4> kTiles{
    {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.92}, {64, 64, 0.65}}};

}  // namespace

double wave_slowdown(const PlannedOp& op, int units) {
  if (units <= 1) return 1;
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = op.groups * std::ceil(op.rows / op.groups / tile.rows) *
                         std::ceil(op.columns / tile.columns);
    // Split-K gives every unit work if the depth is large.
    for (double parts = 1; parts <= 4 && op.depth / parts >= 1024; parts *= 2) {
      const double waves = std::ceil(tiles * parts / units) / parts;
      const double work = waves * units * tile.rows * tile.columns / tile.reached;
      least = std::min(least, work);
      if (tiles >= units) break;
    }
    if (op.depth < 1024) {
      least = std::min(least,
                       std::ceil(tiles / units) * units * tile.rows * tile.columns / tile.reached);
    }
  }
  return std::max(1.0, least / (op.rows * op.columns));
}

namespace {

bool is_grouped(const PlannedOp& op) {
  return op.kind == PlannedOp::Kind::kMatmul && op.name == std::string_view(ops::kGroupedProduct);
}

double matmul_seconds(const PlannedOp& op, const DeviceProfile& device) {
  const ProductRate& rate = device.matmul_rate(op.element);
  const MatmulEfficiency reached = rate.matmul(is_grouped(op), op.transpose_a);
  const double ideal = op.flops / (rate.peak * reached.product);
  return ideal *
         (1 + reached.half_depth / op.depth + reached.half_rows * op.groups / op.rows +
          reached.half_columns / op.columns) *
         wave_slowdown(op, device.units);
}

// Roofline: the larger of compute and memory time, plus the launch.
OpTime op_time(const PlannedOp& op, const DeviceProfile& device) {
  const double bandwidth = op.kind == PlannedOp::Kind::kMemory
                               ? device.stream_bandwidth(format_of(op.element), op.name)
                               : device.memory_bandwidth * device.streamed;
  const double moving = op.bytes / bandwidth;
  double computing = 0;
  if (op.kind == PlannedOp::Kind::kMatmul) computing = matmul_seconds(op, device);
  if (op.kind == PlannedOp::Kind::kAttention) {
    const ProductRate& rate = device.rate(format_of(op.element));
    // Where ours are faster than cuDNN's, they are also used without document masks.
    const bool is_own = rate.own_flash > rate.flash ||
                        (rate.own_flash > 0 && op.name == std::string_view(ops::kOwnAttention));
    const double reached = is_own ? rate.own_flash : rate.flash;
    computing = (op.flops + op.recomputed_flops) / (rate.peak * reached) *
                (1 + rate.half_width / op.depth + rate.half_keys / op.columns);
  }
  const double writing = op.result_bytes / bandwidth;
  const bool computes = computing >= moving;
  return {.op = &op,
          .compute = computes ? computing : 0,
          .memory = computes ? writing : moving + writing,
          .launch = device.launch};
}

bool is_of_data(const PlannedOp& message) {
  const std::string_view group = message.name;
  return group == "data_shard" || group == "data_replicate" || group == "expert_shard" ||
         group == "expert_replicate";
}

// A message of ZeRO-0 and 1 that does not fill a bucket shares one with others, and its latency.
MessageTime data_message(const PlannedOp& message, const Workload& work, const Network& links) {
  const GroupShape group = group_of(message.name, work);
  Network network = links;
  if (shares_memory(links, group)) {
    network.within = *links.shared;
    network.within_groups.clear();
  }
  const double bucket =
      static_cast<double>(work.spec.bucket) * static_cast<double>(message.element);
  const double of_bucket =
      work.spec.parallelism.zero >= 2 ? 1 : std::min(1.0, message.bytes / bucket);
  const double of_whole =
      collective_seconds(network, message.collective, group, message.bytes / of_bucket);
  return {of_bucket * of_whole, bytes_sent(message.collective, group.size, message.bytes)};
}

// By which an op takes longer on the busiest of the ranks that divide the experts.
double imbalance(const PlannedOp& op, const Workload& work) {
  const bool is_exchange =
      op.kind == PlannedOp::Kind::kMessage && op.collective == Collective::kAllToAll;
  return work.mesh.expert > 1 && (is_grouped(op) || is_exchange) ? work.expert_imbalance : 1;
}

}  // namespace

MessageTime& MessageTime::operator+=(const MessageTime& more) {
  seconds += more.seconds;
  bytes += more.bytes;
  return *this;
}

ListTime& ListTime::operator+=(const ListTime& more) {
  products += more.products;
  attention += more.attention;
  streams += more.streams;
  waiting += more.waiting;
  offload += more.offload;
  tensor += more.tensor;
  context += more.context;
  expert += more.expert;
  data += more.data;
  return *this;
}

ListTime ListTime::operator*(double times) const {
  return {times * products, times * attention, times * streams, times * waiting, times * offload,
          tensor * times,   context * times,   expert * times,  data * times};
}

bool is_of_context(std::string_view group) {
  return group.starts_with("context");
}

GroupShape group_of(std::string_view name, const Workload& work) {
  const MeshShape& mesh = work.mesh;
  const auto group = [&](std::int64_t size, std::int64_t stride) {
    return GroupShape{static_cast<int>(size), static_cast<int>(stride),
                      static_cast<int>(work.ranks())};
  };
  const std::int64_t of_stage = work.ranks() / mesh.pipeline,
                     shard = mesh.data_shard * mesh.context;
  if (name == "tensor") return group(mesh.tensor, 1);
  if (is_of_context(name)) {
    const std::int64_t of_heads = work.spec.parallelism.context_ulysses;
    if (name == "context") return group(mesh.context, mesh.tensor);
    if (name == "context_heads") return group(of_heads, mesh.tensor);
    return group(mesh.context / of_heads, mesh.tensor * of_heads);
  }
  if (name == "expert") return group(mesh.expert, mesh.tensor);
  if (name == "data_shard") return group(shard, mesh.tensor);
  if (name == "data_replicate") {
    const std::int64_t size = mesh.data_replicate * (work.spec.parallelism.zero == 0 ? shard : 1);
    return group(size, of_stage / size);
  }
  if (name == "expert_shard" || name == "expert_replicate") {
    const std::int64_t within = mesh.tensor * mesh.expert;
    const std::int64_t shards =
        work.spec.parallelism.zero == 0 ? 1 : std::max<std::int64_t>(shard / mesh.expert, 1);
    if (name == "expert_shard") return group(shards, within);
    return group(of_stage / within / shards, within * shards);
  }
  require(name == "pipeline_ends", "no group ", name);
  return group(2, of_stage);
}

namespace {

// Collects the time of a list's ops and messages.
class ListTimer {
 public:
  ListTimer(const Network& network, std::vector<OpTime>* each) : network_(network), each_(each) {}

  void add(const OpTime& op) {
    const double seconds = op.seconds();
    (op.op->kind == PlannedOp::Kind::kMatmul      ? time.products
     : op.op->kind == PlannedOp::Kind::kAttention ? time.attention
                                                  : time.streams) += seconds;
    expose(network_.waiting(overlapped_, seconds));
    if (each_) each_->push_back(op);
  }
  void add_message(OpTime message) {
    const bool overlaps = message.op->overlaps_next && network_.overlaps;
    (overlaps ? overlapped_ : time.waiting) += message.link;
    if (!overlaps) message.exposed = message.link;
    if (!each_) return;
    if (overlaps) pending_.push_back(each_->size());
    each_->push_back(message);
  }
  void finish() { expose(overlapped_); }

  ListTime time;

 private:
  // So many seconds of the messages before were not overlapped.
  void expose(double seconds) {
    time.waiting += seconds;
    for (const std::size_t index : pending_) {
      OpTime& message = (*each_)[index];
      message.exposed = overlapped_ > 0 ? seconds * message.link / overlapped_ : 0;
    }
    pending_.clear();
    overlapped_ = 0;
  }

  const Network& network_;
  std::vector<OpTime>* const each_;
  double overlapped_ = 0;             // communication that the next op overlaps
  std::vector<std::size_t> pending_;  // these messages, in each_
};

}  // namespace

ListTime list_time(const PartOps::List& list, const Workload& work, const DeviceProfile& device,
                   std::vector<OpTime>* each) {
  ListTimer timer(device.network, each);
  ListTime& time = timer.time;
  for (const PlannedOp& op : list) {
    const double factor = imbalance(op, work);
    if (op.kind != PlannedOp::Kind::kMessage) {
      OpTime one = op_time(op, device);
      for (double* part : {&one.compute, &one.memory, &one.launch}) *part *= factor;
      timer.add(one);
      continue;
    }
    const std::string_view name = op.name;
    if (is_of_data(op)) time.data += data_message(op, work, device.network);
    MessageTime* const axis = name == "tensor"      ? &time.tensor
                              : is_of_context(name) ? &time.context
                              : name == "expert"    ? &time.expert
                                                    : nullptr;
    if (!axis) continue;
    const GroupShape group = group_of(name, work);
    const OpTime message{
        .op = &op,
        .link = collective_seconds(device.network, op.collective, group, op.bytes) * factor,
        .sent = bytes_sent(op.collective, group.size, op.bytes)};
    *axis += {message.link, message.sent};
    timer.add_message(message);
  }
  timer.finish();
  return time;
}

}  // namespace trireme
