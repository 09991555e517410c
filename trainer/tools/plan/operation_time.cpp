#include "trainer/tools/plan/operation_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

// Output tiles of a multiprocessor, and the efficiency of smaller tiles relative to the largest.
struct Tile {
  double rows, columns, reached;
};
constexpr std::array<Tile, 4> kTiles{
    {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.92}, {64, 64, 0.65}}};

// Wave quantization: slowdown of a matmul against one whose tiles fill all waves.
double unevenness(const Operation& op, int units) {
  if (units <= 1) return 1;
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles =
        op.count * std::ceil(op.rows / tile.rows) * std::ceil(op.columns / tile.columns);
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
  return std::max(1.0, least / (op.count * op.rows * op.columns));
}

double product_seconds(const Operation& op, const DeviceProfile& device) {
  const ProductRate& rate = device.rate(op.numbers);
  const double ideal = op.product_flops() / (rate.peak * rate.product);
  return ideal *
         (1 + rate.half_depth / op.depth + rate.half_rows / op.rows +
          rate.half_columns / op.columns) *
         unevenness(op, device.units);
}

GroupShape group_of(Axis axis, const MeshShape& mesh) {
  if (axis == Axis::kContext) {
    return {static_cast<int>(mesh.context), static_cast<int>(mesh.tensor)};
  }
  return {static_cast<int>(mesh.tensor), 1};
}

}  // namespace

ListTime& ListTime::operator+=(const ListTime& more) {
  products += more.products;
  attention += more.attention;
  streams += more.streams;
  waiting += more.waiting;
  for (const auto& [mine, theirs] :
       {std::pair{&tensor, &more.tensor}, std::pair{&context, &more.context}}) {
    mine->seconds += theirs->seconds;
    mine->bytes += theirs->bytes;
  }
  return *this;
}

ListTime ListTime::operator*(double times) const {
  ListTime product = *this;
  for (double* part : {&product.products, &product.attention, &product.streams, &product.waiting,
                       &product.tensor.seconds, &product.tensor.bytes, &product.context.seconds,
                       &product.context.bytes}) {
    *part *= times;
  }
  return product;
}

double operation_seconds(const Operation& op, const Workload& work, const DeviceProfile& device) {
  const double bandwidth = op.kind == Operation::Kind::kStream
                               ? device.stream_bandwidth(op.numbers, op.name)
                               : device.memory_bandwidth * device.streamed;
  const double moving = op.bytes / bandwidth;
  double computing = 0;
  if (op.kind == Operation::Kind::kProduct) computing = product_seconds(op, device);
  if (op.kind == Operation::Kind::kAttention) {
    const ProductRate& rate = device.rate(op.numbers);
    computing = (op.flops + op.extra_flops) /
                (rate.peak * rate.flash * work.traits.attention_kernels) *
                (1 + rate.half_width / op.depth + rate.half_keys / op.columns);
  }
  return std::max(computing, moving) + op.result_bytes / bandwidth + device.launch;
}

double message_seconds(const Operation& message, const Workload& work, const Network& network) {
  return collective_seconds(network, message.collective, group_of(message.axis, work.mesh),
                            message.bytes);
}

ListTime list_time(const std::vector<Operation>& list, const Workload& work,
                   const DeviceProfile& device) {
  ListTime time;
  double overlapped = 0;  // communication that the next operation overlaps
  for (const Operation& op : list) {
    if (op.kind == Operation::Kind::kMessage) {
      const double seconds = message_seconds(op, work, device.network);
      ListTime::Messages& messages = op.axis == Axis::kContext ? time.context : time.tensor;
      messages.seconds += seconds;
      messages.bytes += bytes_sent(op.collective, group_of(op.axis, work.mesh).size, op.bytes);
      (op.overlaps_next && device.network.overlaps ? overlapped : time.waiting) += seconds;
      continue;
    }
    const double seconds = operation_seconds(op, work, device);
    double& kind = op.kind == Operation::Kind::kProduct     ? time.products
                   : op.kind == Operation::Kind::kAttention ? time.attention
                                                            : time.streams;
    kind += seconds;
    time.waiting += device.network.waiting(overlapped, seconds);
    overlapped = 0;
  }
  time.waiting += overlapped;
  return time;
}

}  // namespace trireme
