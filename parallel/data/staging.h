#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "model/device/event.h"
#include "model/tensor/arena.h"
#include "parallel/data/update_rule.h"

namespace trireme {

// Brings masters and state that lie in pinned memory of the host to the device of the values, a
// piece of a range at a time, and takes back what was written: while one piece is computed on,
// the next is on its way in and the one before on its way out, each way on a stream of its own
// (ZeRO-Offload, Ren et al. 2021, with the update left to the device). The operations on a piece
// are those on the whole range, so that no bit depends on where the state lies.
class Staging {
 public:
  static constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // elements at most
  // What of a range is moved.
  struct Parts {
    bool master = false, state = false;
  };

  // Of ranges that have a master or state on the host.
  explicit Staging(std::span<const UpdateRange> ranges, std::int64_t piece = kPiece);

  // Around everything that one step does piece by piece: what was queued on `stream` before is
  // done when the first piece comes, and what is queued after end() finds all of them back.
  // Memory for the pieces is taken from `arena`, whose caller's Frame outlives end().
  void begin(Stream& stream, Arena& arena);
  void end(Stream& stream);

  std::int64_t piece() const { return piece_; }
  // `part` of a range, of at most piece() elements, with `reads` of it on the device. It stays
  // there until take_back(), which comes before the next bring(). What was written is not
  // brought again before end().
  UpdateRange bring(Stream& stream, const UpdateRange& part, Parts reads);
  void take_back(Stream& stream, const UpdateRange& part, const UpdateRange& near, Parts writes);

 private:
  static constexpr std::size_t kSlots = 3;  // on its way in, computed on, on its way out
  struct Slot {
    explicit Slot(Device device) : arrived(device), computed(device), left(device) {}
    Event arrived, computed, left;
  };
  struct Ways {
    explicit Ways(Device device);
    Stream in, out;
    Event begun, ended;
    std::array<Slot, kSlots> slots;
  };

  std::int64_t piece_;
  std::size_t bytes_ = 0;  // of a slot
  std::array<Tensor, kSlots> memory_;
  std::size_t turn_ = 0;
  std::optional<Ways> ways_;  // from the first step that is computed
};

// Elements [at, at + count) of a range.
UpdateRange part_of(const UpdateRange& range, std::int64_t at, std::int64_t count);

// Calls body(part) over the range in parts of at most `length` elements, with those on the device
// that it reads. `into`: where the range begins in a longer run, at whose multiples of `length`
// the parts end.
template <class Body>
void each_part(Stream& stream, const UpdateRange& range, std::int64_t length, std::int64_t into,
               Staging::Parts reads, Staging::Parts writes, const Body& body) {
  Staging* const staging = range.staging;
  if (staging) length = std::min(length, staging->piece());
  const std::int64_t count = range.value.count();
  for (std::int64_t at = 0, n = 0; at < count; at += n) {
    n = std::min(length - (into + at) % length, count - at);
    const UpdateRange part = part_of(range, at, n);
    if (!staging) {
      body(part);
      continue;
    }
    const UpdateRange near = staging->bring(stream, part, reads);
    body(near);
    staging->take_back(stream, part, near, writes);
  }
}

}  // namespace trireme
