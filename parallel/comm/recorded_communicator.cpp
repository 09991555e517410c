#include "parallel/comm/recorded_communicator.h"

#include <exception>
#include <utility>

#include "parallel/comm/shapes.h"

namespace trireme {

// A message whose end, at the latest when it is waited for, enters the ledger.
class RecordedCommunicator::RecordedMessage final : public Transfer::Pending {
 public:
  RecordedMessage(Transfer message, Recording& recording, const Ledger::Entry& entry,
                  const CommunicationObserver::Event& event)
      : message_(std::move(message)), recording_(recording), entry_(entry), event_(event) {}
  void wait() override {
    recording_.ledger.wait_for_message(entry_);
    message_.wait();
    recording_.ledger.end(entry_);
    if (recording_.observer) recording_.observer->end(event_);
  }

 private:
  Transfer message_;
  Recording& recording_;
  Ledger::Entry entry_;
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
      number_(recording.ledger.add_group(name_, members_)) {}

RecordedCommunicator::~RecordedCommunicator() {
  if (std::uncaught_exceptions() == exceptions_) recording_.ledger.remove_group(number_);
}

// Where `work` throws, the call stays open: the ledger shows what failed.
template <class Work>
void RecordedCommunicator::record(const Stream& stream, Operation operation, std::size_t bytes,
                                  const Work& work) {
  if (!stream.executes()) return work();
  const CommunicationObserver::Event event{name_, operation, bytes, -1};
  if (recording_.observer) recording_.observer->begin(event);
  const Ledger::Entry entry = recording_.ledger.begin_collective(number_, operation, bytes);
  work();
  recording_.ledger.end(entry);
  if (recording_.observer) recording_.observer->end(event);
}

template <class Start>
Transfer RecordedCommunicator::record_message(const Stream& stream, Operation operation,
                                              const Tensor& tensor, int peer, const Start& start) {
  comm::check_peer(ledger::name_of(operation), *this, peer);
  if (!stream.executes() || tensor.count() == 0) return start();
  const CommunicationObserver::Event event{name_, operation, tensor.bytes(),
                                           members_[static_cast<std::size_t>(peer)]};
  if (recording_.observer) recording_.observer->begin(event);
  const Ledger::Entry entry =
      recording_.ledger.start_message(number_, operation, event.bytes, event.peer);
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

void RecordedCommunicator::all_to_all(Stream& stream, Tensor received, Tensor sent) {
  record(stream, Operation::kAllToAll, sent.bytes(),
         [&] { group_->all_to_all(stream, received, sent); });
}

void RecordedCommunicator::broadcast(Stream& stream, Tensor tensor, int root) {
  record(stream, Operation::kBroadcast, tensor.bytes(),
         [&] { group_->broadcast(stream, tensor, root); });
}

void RecordedCommunicator::barrier(Stream& stream) {
  record(stream, Operation::kBarrier, 0, [&] { group_->barrier(stream); });
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
