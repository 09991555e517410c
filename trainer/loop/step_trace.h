#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/device/event.h"
#include "parallel/comm/communication_observer.h"
#include "parallel/pipeline/observer.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/telemetry/trace_file.h"

namespace trireme {

// Writes this rank's trace file of the first steps after a start and measures the pipeline bubble:
// the idle fraction of its ranks' time from the first start to the last end. All ranks start a step
// together, having ended the one before together, so that time is the longest rank's, and
// clocks of different nodes are never compared. Also measures which fraction of asynchronous
// communication is hidden: the rank does not wait for it. CUDA work is timed by events on its
// stream, read after the step so that nothing waits for them.
class StepTrace final : public PipelineObserver, public CommunicationObserver {
 public:
  // The first of `steps` is not counted: it may time matrix-product libraries.
  StepTrace(const std::filesystem::path& run_folder, const RankGroups& groups, std::int64_t steps);
  ~StepTrace() override { file_.close(); }

  // Pipeline and communication are recorded between begin_step and end_step only. `stream`, the
  // engine's, is idle at both.
  void begin_step(std::int64_t step, Stream& stream);
  struct Shares {
    std::optional<double> bubble;  // none without a pipeline
    std::optional<double> hidden;  // none without asynchronous communication
  };
  // Of the step, over all ranks; empty for the first step. Collective.
  Shares end_step();
  bool done() const { return left_ == 0; }
  // Medians over the counted steps.
  Shares shares() const;

  // A span of the step: the lifetime of the object.
  class Part {
   public:
    Part(StepTrace& trace, const char* name)
        : file_(trace.file_), name_(name), start_(file_.now()) {}
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    ~Part() { file_.span("step", name_, start_, file_.now()); }

   private:
    TraceFile& file_;
    const char* name_;
    std::int64_t start_;
  };

  using PipelineEvent = PipelineObserver::Event;
  void begin(Stream& stream, const PipelineEvent& event) override;
  void end(Stream& stream, const PipelineEvent& event) override;
  // Collectives, which never nest; messages are events of the pipeline.
  using Call = CommunicationObserver::Event;
  void begin(const Call& call) override;
  void end(const Call& call) override;
  void leave(const Call&) override {}
  void ran_beside(const Call& call, Transfer::Interval ran, Transfer::Interval waited) override;

 private:
  std::optional<double> bubble() const;
  std::optional<double> hidden() const;

  // Index into `marks_`.
  using Mark = std::size_t;
  Mark mark(Stream& stream);
  void read_device();

  using Key = std::pair<What, std::string>;
  struct Begun {
    std::int64_t at = 0;
    Mark mark = 0;  // of work on a device
  };
  struct Queued {
    std::string name;
    TraceFile::Details details;
    Mark begin = 0, end = 0;
  };

  const RankGroups& groups_;
  TraceFile file_;
  std::int64_t left_;
  bool in_step_ = false;
  std::int64_t step_ = 0, step_start_ = 0;
  // A step's pipeline execution, ns.
  struct Walk {
    std::optional<std::int64_t> start;
    std::int64_t end = 0, busy = 0;
  };
  Walk walk_;                  // this step's
  std::map<Key, Begun> open_;  // events in progress
  // On a device in this step: marks_[0] is its start, device_start_ on the host's clock.
  std::deque<trireme::Event> marks_;
  Mark marks_used_ = 0;
  std::int64_t device_start_ = 0;
  bool device_is_named_ = false;
  std::vector<Queued> queued_;
  std::int64_t call_start_ = 0;
  // Of asynchronous collectives: when they ran, and when this rank waited.
  std::vector<Transfer::Interval> ran_, waited_;
  bool counts_ = false;  // false in the first step
  std::vector<double> bubbles_, hiddens_;
};

}  // namespace trireme
