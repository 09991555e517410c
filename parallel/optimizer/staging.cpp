#include "parallel/optimizer/staging.h"

#include "model/device/copy.h"

namespace trireme {
namespace {

bool is_away(const ParamShard& shard, const Tensor& tensor) {
  return tensor && !(tensor.device == shard.value.device);
}

// Calls body(tensor of `a`, same tensor of `b`) for the tensors of `parts` that are in host memory
// in `a`.
template <class Body>
void for_each_away(const ParamShard& a, ParamShard& b, Staging::Parts parts, const Body& body) {
  if (parts.master && is_away(a, a.master)) body(a.master, b.master);
  if (!parts.state) return;
  for (std::size_t i = 0; i < a.state.size(); ++i) {
    if (is_away(a, a.state[i])) body(a.state[i], b.state[i]);
  }
}

}  // namespace

Staging::CopyStreams::CopyStreams(Device device)
    : in(device),
      out(device),
      begun(device),
      ended(device),
      slots{Slot(device), Slot(device), Slot(device)} {}

Staging::Staging(std::span<const ParamShard> shards, std::int64_t piece) : piece_(piece) {
  for (const ParamShard& shard : shards) {
    ParamShard part = shard.slice(0, std::min(shard.count(), piece));
    std::size_t bytes = 0;
    for_each_away(part, part, {.master = true, .state = true},
                  [&](const Tensor& away, Tensor&) { bytes += Arena::rounded(away.bytes()); });
    bytes_ = std::max(bytes_, bytes);
  }
}

void Staging::begin(Stream& stream, Arena& arena) {
  for (Tensor& memory : memory_) {
    memory = arena.take({static_cast<std::int64_t>(bytes_ / sizeof(float))}, DType::kF32);
  }
  if (!stream.executes()) return;
  if (!copy_streams_) copy_streams_.emplace(stream.device());
  copy_streams_->begun.record(stream);
  copy_streams_->begun.make_wait(copy_streams_->in);
}

void Staging::end(Stream& stream) {
  if (!stream.executes()) return;
  copy_streams_->ended.record(copy_streams_->out);
  copy_streams_->ended.make_wait(stream);
}

ParamShard Staging::bring(Stream& stream, const ParamShard& part, Parts reads) {
  ParamShard near = part;
  std::byte* at = memory_[turn_].data;
  if (stream.executes()) copy_streams_->slots[turn_].left.make_wait(copy_streams_->in);
  for_each_away(part, near, reads, [&](const Tensor& from, Tensor& to) {
    to = {at, from.dtype, from.shape, part.value.device};
    at += Arena::rounded(from.bytes());
    if (stream.executes()) copy_bytes(copy_streams_->in, to.data, from.data, from.bytes());
  });
  if (!stream.executes()) return near;
  const Slot& slot = copy_streams_->slots[turn_];
  copy_streams_->slots[turn_].arrived.record(copy_streams_->in);
  slot.arrived.make_wait(stream);
  return near;
}

void Staging::take_back(Stream& stream, const ParamShard& part, const ParamShard& near,
                        Parts writes) {
  if (stream.executes()) {
    Slot& slot = copy_streams_->slots[turn_];
    slot.computed.record(stream);
    slot.computed.make_wait(copy_streams_->out);
    ParamShard from = near;
    for_each_away(part, from, writes, [&](const Tensor& to, Tensor& written) {
      copy_bytes(copy_streams_->out, to.data, written.data, written.bytes());
    });
    slot.left.record(copy_streams_->out);
  }
  turn_ = (turn_ + 1) % kSlots;
}

}  // namespace trireme
