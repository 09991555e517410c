#pragma once
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communication_observer.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/flight_recorder.h"

namespace trireme {

// The flight recorder and the observer of a world's groups.
struct Recording {
  FlightRecorder recorder;
  CommunicationObserver* observer = nullptr;
};

// Decorates a communicator: records each call in the flight recorder before it begins. Calls on
// planning streams are not recorded.
class RecordedCommunicator final : public Communicator {
 public:
  // `members` are the group's world ranks. The recording outlives the communicator.
  RecordedCommunicator(std::unique_ptr<Communicator> group, Recording& recording, std::string name,
                       std::vector<int> members);
  // During stack unwinding the group stays in the flight recorder, for the analysis of pending
  // calls.
  ~RecordedCommunicator() override;

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::size_t buffer_bytes() const override { return group_->buffer_bytes(); }
  void all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  void all_gather(Stream& stream, Tensor whole, Tensor part) override;
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  void all_to_all(Stream& stream, const RankBlocks& received, const RankBlocks& sent) override;
  void broadcast(Stream& stream, Tensor tensor, int root) override;
  void barrier(Stream& stream) override;
  Transfer start_all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  Transfer start_all_gather(Stream& stream, Tensor whole, Tensor part) override;
  Transfer start_reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  bool is_async() const override { return group_->is_async(); }
  Transfer start_send(Stream& stream, Tensor tensor, int to) override;
  Transfer start_receive(Stream& stream, Tensor tensor, int from) override;

 private:
  using Operation = flight::Operation;
  class RecordedMessage;
  class RecordedCollective;
  template <class Work>
  void record(const Stream& stream, Operation operation, std::size_t bytes, const Work& work);
  template <class Start>
  Transfer record_start(const Stream& stream, Operation operation, std::size_t bytes,
                        const Start& start);
  template <class Start>
  Transfer record_message(const Stream& stream, Operation operation, const Tensor& tensor, int peer,
                          const Start& start);

  std::unique_ptr<Communicator> group_;
  Recording& recording_;
  std::string name_;
  std::vector<int> members_;
  int exceptions_;
  int number_;  // in the flight recorder
};

}  // namespace trireme
