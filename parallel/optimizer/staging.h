#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "model/device/copy_ring.h"
#include "model/tensor/arena.h"
#include "parallel/optimizer/optimizer.h"

namespace trireme {

// Streams masters, state and averages from pinned host memory to the device of the values, one
// chunk of a shard at a time, and writes results back: copies of the next and the previous chunk
// overlap with the computation, on one stream per direction (ZeRO-Offload, Ren et al. 2021, with
// the update on the device). The operations are those on the whole shard, so the bits do not depend
// on where the state is.
class Staging {
 public:
  static constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // elements, at most
  // Which tensors of a shard are copied.
  struct Parts {
    bool master = false, state = false, average = false;
  };

  // For shards with a master or state in host memory.
  explicit Staging(std::span<const ParamShard> shards, std::int64_t piece = kPiece);

  // begin() and end() enclose the chunks of one step: chunks are copied after earlier work on
  // `stream`, and work after end() sees all results. Chunk buffers are allocated in `arena`; the
  // caller's Frame outlives end().
  void begin(Stream& stream, Arena& arena);
  void end(Stream& stream);

  std::int64_t piece() const { return piece_; }
  // Copies the `reads` of `part`, at most piece() elements of a shard, to the device. They stay
  // there until take_back(), which precedes the next bring(). What was written is not brought again
  // before end().
  ParamShard bring(Stream& stream, const ParamShard& part, Parts reads);
  void take_back(Stream& stream, const ParamShard& part, const ParamShard& near, Parts writes);

 private:
  std::int64_t piece_;
  std::size_t bytes_ = 0;  // per slot
  std::array<Tensor, CopyRing::kSlots> memory_;
  std::size_t turn_ = 0;
  CopyRing ring_;
};

// Calls body(part) for parts of the shard of at most `length` elements, with their `reads` on the
// device. `into` is the shard's offset in a longer range; parts end at multiples of `length` from
// that one's start.
template <class Body>
void each_part(const UpdateStep& step, const ParamShard& shard, std::int64_t length,
               std::int64_t into, Staging::Parts reads, Staging::Parts writes, const Body& body) {
  Staging* const staging = step.staging;
  if (staging) length = std::min(length, staging->piece());
  const std::int64_t count = shard.count();
  if (!staging && count > 0 && into % length + count <= length) return body(shard);
  for (std::int64_t at = 0, n = 0; at < count; at += n) {
    n = std::min(length - (into + at) % length, count - at);
    const ParamShard part = shard.slice(at, n);
    if (!staging) {
      body(part);
      continue;
    }
    const ParamShard near = staging->bring(step.stream, part, reads);
    body(near);
    staging->take_back(step.stream, part, near, writes);
  }
}

}  // namespace trireme
