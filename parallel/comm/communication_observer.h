#pragma once
#include <cstddef>
#include <string>

#include "parallel/comm/flight_recorder_layout.h"
#include "parallel/comm/transfer.h"

namespace trireme {

// Observes every communicator call, on the rank's main thread: begin() and end() of a blocking
// collective; begin() at the start of a message and end() at its completion; begin() and leave() of
// an asynchronous collective, then ran_beside() after its wait. A call that fails gets no end().
class CommunicationObserver {
 public:
  struct Event {
    const std::string& group;
    flight::Operation operation;
    std::size_t bytes;  // size of this rank's tensor, the larger one if there are two
    int peer;           // world rank of a message's peer; -1 for collectives
  };
  CommunicationObserver() = default;
  CommunicationObserver(const CommunicationObserver&) = delete;
  CommunicationObserver& operator=(const CommunicationObserver&) = delete;
  virtual ~CommunicationObserver() = default;

  virtual void begin(const Event& event) = 0;
  virtual void end(const Event& event) = 0;
  virtual void leave(const Event& event) = 0;
  // An asynchronous collective: the interval it `ran` in, and the interval the rank `waited` for
  // it.
  virtual void ran_beside(const Event& event, Transfer::Interval ran,
                          Transfer::Interval waited) = 0;
};

}  // namespace trireme
