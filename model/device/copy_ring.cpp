#include "model/device/copy_ring.h"

namespace trireme {

CopyRing::Streams& CopyRing::open(const Stream& stream) {
  if (!streams_) {
    streams_.emplace(stream.device());
    for (std::size_t slot = 0; slot < count_; ++slot) streams_->slots.emplace_back(stream.device());
  }
  return *streams_;
}

void CopyRing::begin(Stream& stream) {
  if (!stream.executes()) return;
  Streams& streams = open(stream);
  streams.begun.record(stream);
  streams.begun.make_wait(streams.in);
}

void CopyRing::end(Stream& stream) {
  if (!stream.executes()) return;
  Streams& streams = open(stream);
  streams.ended.record(streams.out);
  streams.ended.make_wait(stream);
}

void CopyRing::await_arrival(Stream& stream, std::size_t slot) {
  if (stream.executes()) events_of(stream, slot).arrived.make_wait(stream);
}

void CopyRing::await_departure(Stream& stream, std::size_t slot) {
  if (stream.executes()) events_of(stream, slot).departed.make_wait(stream);
}

void CopyRing::note_computed(Stream& stream, std::size_t slot) {
  if (stream.executes()) events_of(stream, slot).computed.record(stream);
}

}  // namespace trireme
