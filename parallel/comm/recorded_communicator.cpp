#include "parallel/comm/recorded_communicator.h"

#include <exception>
#include <utility>

#include "parallel/comm/shapes.h"

namespace trireme {

// A message whose completion is recorded, at the latest by wait().
class RecordedCommunicator::RecordedMessage final : public Transfer::Pending {
 public:
  RecordedMessage(Transfer message, Recording& recording, const FlightRecorder::Entry& entry,
                  const CommunicationObserver::Event& event)
      : message_(std::move(message)), recording_(recording), entry_(entry), event_(event) {}
  void wait() override {
    recording_.recorder.wait_for(entry_);
    message_.wait();
    recording_.recorder.end(entry_);
    if (recording_.observer) recording_.observer->end(event_);
  }

 private:
  Transfer message_;
  Recording& recording_;
  FlightRecorder::Entry entry_;
  CommunicationObserver::Event event_;
};

// An asynchronous collective. Only the caller's thread writes the flight recorder, so completion is
// recorded by wait().
class RecordedCommunicator::RecordedCollective final : public Transfer::Pending {
 public:
  RecordedCollective(Transfer work, Recording& recording, const FlightRecorder::Entry& entry,
                     const CommunicationObserver::Event& event)
      : work_(std::move(work)), recording_(recording), entry_(entry), event_(event) {}
  void wait() override {
    Transfer::Interval waited{.begin = flight_recorder_now(), .end = 0};
    recording_.recorder.wait_for(entry_);
    work_.wait();
    waited.end = flight_recorder_now();
    recording_.recorder.end(entry_, work_.ran().end);
    if (recording_.observer) recording_.observer->ran_beside(event_, work_.ran(), waited);
  }
  Transfer::Interval ran() const override { return work_.ran(); }

 private:
  Transfer work_;
  Recording& recording_;
  FlightRecorder::Entry entry_;
  CommunicationObserver::Event event_;
};

RecordedCommunicator::RecordedCommunicator(std::unique_ptr<Communicator> group,
                                           Recording& recording, std::string name,
                                           std::vector<int> members)
    : group_(std::move(group)),
      recording_(recording),
      name_(std::move(name)),
      members_(std::move(members)),
      exceptions_(std::uncaught_exceptions()),
      number_(recording.recorder.add_group(name_, members_)) {}

RecordedCommunicator::~RecordedCommunicator() {
  if (std::uncaught_exceptions() == exceptions_) recording_.recorder.remove_group(number_);
}

// If `work` throws, the call stays open, so that the flight recorder shows the failed call.
template <class Work>
void RecordedCommunicator::record(const Stream& stream, Operation operation, std::size_t bytes,
                                  const Work& work) {
  if (!stream.executes()) return work();
  const CommunicationObserver::Event event{name_, operation, bytes, -1};
  if (recording_.observer) recording_.observer->begin(event);
  const FlightRecorder::Entry entry =
      recording_.recorder.begin_collective(number_, operation, bytes);
  work();
  recording_.recorder.end(entry);
  if (recording_.observer) recording_.observer->end(event);
}

// If the transfer is complete when `start` returns, it is recorded as a blocking call.
template <class Start>
Transfer RecordedCommunicator::record_start(const Stream& stream, Operation operation,
                                            std::size_t bytes, const Start& start) {
  if (!stream.executes()) return start();
  const CommunicationObserver::Event event{name_, operation, bytes, -1};
  CommunicationObserver* const observer = recording_.observer;
  if (observer) observer->begin(event);
  const FlightRecorder::Entry entry =
      recording_.recorder.begin_collective(number_, operation, bytes);
  Transfer work = start();
  if (!work.is_pending()) {
    recording_.recorder.end(entry);
    if (observer) observer->end(event);
    return {};
  }
  recording_.recorder.leave();
  if (observer) observer->leave(event);
  return Transfer(std::make_unique<RecordedCollective>(std::move(work), recording_, entry, event));
}

template <class Start>
Transfer RecordedCommunicator::record_message(const Stream& stream, Operation operation,
                                              const Tensor& tensor, int peer, const Start& start) {
  comm::check_peer(flight::name_of(operation), *this, peer);
  if (!stream.executes() || tensor.count() == 0) return start();
  const CommunicationObserver::Event event{name_, operation, tensor.bytes(),
                                           members_[static_cast<std::size_t>(peer)]};
  if (recording_.observer) recording_.observer->begin(event);
  const FlightRecorder::Entry entry =
      recording_.recorder.start_message(number_, operation, event.bytes, event.peer);
  return Transfer(std::make_unique<RecordedMessage>(start(), recording_, entry, event));
}

void RecordedCommunicator::all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
  record(stream, Operation::kAllReduce, tensor.bytes(),
         [&] { group_->all_reduce(stream, tensor, reduce); });
}

void RecordedCommunicator::all_gather(Stream& stream, Tensor whole, Tensor part) {
  record(stream, Operation::kAllGather, whole.bytes(),
         [&] { group_->all_gather(stream, whole, part); });
}

void RecordedCommunicator::reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  record(stream, Operation::kReduceScatter, whole.bytes(),
         [&] { group_->reduce_scatter(stream, part, whole); });
}

void RecordedCommunicator::all_to_all(Stream& stream, const RankBlocks& received,
                                      const RankBlocks& sent) {
  const std::size_t bytes = static_cast<std::size_t>(sent.count()) * size_of(sent.tensor.dtype);
  record(stream, Operation::kAllToAll, bytes, [&] { group_->all_to_all(stream, received, sent); });
}

void RecordedCommunicator::broadcast(Stream& stream, Tensor tensor, int root) {
  record(stream, Operation::kBroadcast, tensor.bytes(),
         [&] { group_->broadcast(stream, tensor, root); });
}

void RecordedCommunicator::barrier(Stream& stream) {
  record(stream, Operation::kBarrier, 0, [&] { group_->barrier(stream); });
}

Transfer RecordedCommunicator::start_all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
  return record_start(stream, Operation::kAllReduce, tensor.bytes(),
                      [&] { return group_->start_all_reduce(stream, tensor, reduce); });
}

Transfer RecordedCommunicator::start_all_gather(Stream& stream, Tensor whole, Tensor part) {
  return record_start(stream, Operation::kAllGather, whole.bytes(),
                      [&] { return group_->start_all_gather(stream, whole, part); });
}

Transfer RecordedCommunicator::start_reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  return record_start(stream, Operation::kReduceScatter, whole.bytes(),
                      [&] { return group_->start_reduce_scatter(stream, part, whole); });
}

Transfer RecordedCommunicator::start_send(Stream& stream, Tensor tensor, int to) {
  return record_message(stream, Operation::kSend, tensor, to,
                        [&] { return group_->start_send(stream, tensor, to); });
}

Transfer RecordedCommunicator::start_receive(Stream& stream, Tensor tensor, int from) {
  return record_message(stream, Operation::kReceive, tensor, from,
                        [&] { return group_->start_receive(stream, tensor, from); });
}

}  // namespace trireme
