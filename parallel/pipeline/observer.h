#pragma once
#include <cstdint>

#include "model/device/stream.h"
#include "parallel/pipeline/schedule.h"

namespace trireme {

// Observes the begin and end of a rank's pipeline events, for measurement. Called on the rank's
// main thread; on a device with asynchronous execution an action's begin and end are events in its
// stream.
class PipelineObserver {
 public:
  enum class What : std::uint8_t {
    kAction,   // computation; one at a time
    kWait,     // blocked until a message arrives or completes
    kReceive,  // from the start of the receive to its completion
    kSend,     // from the start of the send to its completion, when its buffer is needed again
  };
  struct Event {
    What what;
    Action action;  // the computation, or the reader or producer of the message
    int peer;       // rank at the other end of a message; -1 for an action
  };
  PipelineObserver() = default;
  PipelineObserver(const PipelineObserver&) = delete;
  PipelineObserver& operator=(const PipelineObserver&) = delete;
  virtual ~PipelineObserver() = default;

  virtual void begin(Stream& stream, const Event& event) = 0;
  virtual void end(Stream& stream, const Event& event) = 0;
};

}  // namespace trireme
