#pragma once
#include <cstdint>

#include "model/device/stream.h"
#include "parallel/pipeline/schedule.h"

namespace trireme {

// Told what a rank's pipeline does, when it begins and when it ends, so that it can be
// measured. Calls come from the rank's own thread; on a device whose work is queued, an
// action begins and ends in its stream.
class PipelineObserver {
 public:
  enum class What : std::uint8_t {
    kAction,   // the work itself; one at a time
    kWait,     // nothing can be done until a message has come or left
    kReceive,  // from its start until it is known to be there
    kSend,     // from its start until it is known to have left: when its memory is needed again
  };
  struct Event {
    What what;
    Action action;  // the one that works, or that reads or makes the message
    int peer;       // the rank at the message's other end; -1 for an action
  };
  PipelineObserver() = default;
  PipelineObserver(const PipelineObserver&) = delete;
  PipelineObserver& operator=(const PipelineObserver&) = delete;
  virtual ~PipelineObserver() = default;

  virtual void begin(Stream& stream, const Event& event) = 0;
  virtual void end(Stream& stream, const Event& event) = 0;
};

}  // namespace trireme
