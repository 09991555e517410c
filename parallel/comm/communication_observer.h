#pragma once
#include <cstddef>
#include <string>

#include "parallel/comm/ledger_layout.h"
#include "parallel/comm/transfer.h"

namespace trireme {

// Told of every call to a group, on the rank's own thread: of a collective when it begins
// and when it returns, of a message when it starts and when it is known to be there, or to
// have left. A collective that goes on beside the rank's work is left instead, and told of
// once more when it has been waited for. A call that fails never ends.
class CommunicationObserver {
 public:
  struct Event {
    const std::string& group;
    ledger::Operation operation;
    std::size_t bytes;  // of this rank's tensor, the larger where there are two
    int peer;           // of a message, counted in the world; else -1
  };
  CommunicationObserver() = default;
  CommunicationObserver(const CommunicationObserver&) = delete;
  CommunicationObserver& operator=(const CommunicationObserver&) = delete;
  virtual ~CommunicationObserver() = default;

  virtual void begin(const Event& event) = 0;
  virtual void end(const Event& event) = 0;
  virtual void leave(const Event& event) = 0;
  // It `ran` beside the rank's work, which `waited` for it to end.
  virtual void ran_beside(const Event& event, Transfer::Interval ran,
                          Transfer::Interval waited) = 0;
};

}  // namespace trireme
