#pragma once
#include <cstddef>
#include <deque>
#include <optional>

#include "model/device/event.h"

namespace trireme {

// Order between computation and the copies from and to host memory of device buffers that are used
// in turn. Copies run on one stream per direction and overlap with the computation on other
// buffers. The owner has the memory; all calls are no-ops on planning streams.
class CopyRing {
 public:
  // Copying in, in use, copying out.
  static constexpr std::size_t kSlots = 3;

  explicit CopyRing(std::size_t slots = kSlots) : count_(slots) {}

  // Copies started from now on follow the earlier work on `stream`.
  void begin(Stream& stream);
  // Later work on `stream` follows all copies to the host.
  void end(Stream& stream);

  // Calls copies(stream), which enqueues copies into the slot on that stream; they follow the
  // computation on the slot and its copies to the host. Work after await_arrival sees them.
  template <class Copies>
  void copy_in(const Stream& stream, std::size_t slot, const Copies& copies) {
    if (!stream.executes()) return;
    Events& events = events_of(stream, slot);
    events.computed.make_wait(streams_->in);
    events.departed.make_wait(streams_->in);
    copies(streams_->in);
    events.arrived.record(streams_->in);
  }
  void await_arrival(Stream& stream, std::size_t slot);

  // The same for copies of the slot to the host; they follow the work on `stream`.
  template <class Copies>
  void copy_out(Stream& stream, std::size_t slot, const Copies& copies) {
    if (!stream.executes()) return;
    note_computed(stream, slot);
    Events& events = events_of(stream, slot);
    events.computed.make_wait(streams_->out);
    copies(streams_->out);
    events.departed.record(streams_->out);
  }
  void await_departure(Stream& stream, std::size_t slot);

  // The work on `stream` so far is the last on the slot before new data arrives.
  void note_computed(Stream& stream, std::size_t slot);

 private:
  struct Events {
    explicit Events(Device device) : arrived(device), computed(device), departed(device) {}
    Event arrived, computed, departed;
  };
  struct Streams {
    explicit Streams(Device device) : in(device), out(device), begun(device), ended(device) {}
    Stream in, out;
    Event begun, ended;
    std::deque<Events> slots;
  };
  Streams& open(const Stream& stream);
  Events& events_of(const Stream& stream, std::size_t slot) { return open(stream).slots[slot]; }

  std::size_t count_;
  std::optional<Streams> streams_;  // created by the first executing call
};

}  // namespace trireme
