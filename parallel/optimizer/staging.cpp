#include "parallel/optimizer/staging.h"

#include "model/device/copy.h"

namespace trireme {
namespace {

bool is_away(const ParamShard& shard, const Tensor& tensor) {
  return tensor && !(tensor.device == shard.value.device);
}

// Calls body(tensor of `a`, same tensor of `b`) for the tensors of `parts` that are in host memory
// in `a`.
template <class Shard, class Body>
void for_each_away(const ParamShard& a, Shard& b, Staging::Parts parts, const Body& body) {
  if (parts.master && is_away(a, a.master)) body(a.master, b.master);
  if (parts.average && is_away(a, a.average)) body(a.average, b.average);
  if (!parts.state) return;
  for (std::size_t i = 0; i < a.state.size(); ++i) {
    if (is_away(a, a.state[i])) body(a.state[i], b.state[i]);
  }
}

}  // namespace

Staging::Staging(std::span<const ParamShard> shards, std::int64_t piece) : piece_(piece) {
  for (const ParamShard& shard : shards) {
    ParamShard part = shard.slice(0, std::min(shard.count(), piece));
    for (const Parts& parts :
         {Parts{.master = true, .state = true}, Parts{.master = true, .average = true}}) {
      std::size_t bytes = 0;
      for_each_away(part, part, parts,
                    [&](const Tensor& away, Tensor&) { bytes += Arena::rounded(away.bytes()); });
      bytes_ = std::max(bytes_, bytes);
    }
  }
}

void Staging::begin(Stream& stream, Arena& arena) {
  for (Tensor& memory : memory_) {
    memory = arena.take({static_cast<std::int64_t>(bytes_ / sizeof(float))}, DType::kF32);
  }
  ring_.begin(stream);
}

void Staging::end(Stream& stream) {
  ring_.end(stream);
}

ParamShard Staging::bring(Stream& stream, const ParamShard& part, Parts reads) {
  ParamShard near = part;
  std::byte* at = memory_[turn_].data;
  for_each_away(part, near, reads, [&](const Tensor& from, Tensor& to) {
    to = {at, from.dtype, from.shape, part.value.device};
    at += Arena::rounded(from.bytes());
  });
  ring_.copy_in(stream, turn_, [&](Stream& in) {
    for_each_away(part, near, reads, [&](const Tensor& from, const Tensor& to) {
      copy_bytes(in, to.data, from.data, from.bytes());
    });
  });
  ring_.await_arrival(stream, turn_);
  return near;
}

void Staging::take_back(Stream& stream, const ParamShard& part, const ParamShard& near,
                        Parts writes) {
  ring_.copy_out(stream, turn_, [&](Stream& out) {
    for_each_away(part, near, writes, [&](const Tensor& to, const Tensor& from) {
      copy_bytes(out, to.data, from.data, from.bytes());
    });
  });
  turn_ = (turn_ + 1) % memory_.size();
}

}  // namespace trireme
