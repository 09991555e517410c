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

// Writes what this rank does in the first steps after a start to its trace file, and
// measures the pipeline's bubble: the share of the pipeline's time in which its ranks do
// not work, from the first rank's start until the last one is done. A step begins on all
// ranks at once, since they ended the one before together; so the longest of their walks
// is that time, and clocks of different nodes are never compared. Of collectives that run
// beside the ranks' work it measures how much of their time is hidden: in which the rank
// does not wait for one of them. What a CUDA device does is timed by events on its stream, which
// are read when the step is over: nobody waits for them.
class StepTrace final : public PipelineObserver, public CommunicationObserver {
 public:
  // The first of `steps` is not counted: it may try libraries out.
  StepTrace(const std::filesystem::path& run_folder, const RankGroups& groups, std::int64_t steps);
  ~StepTrace() override { file_.close(); }

  // Between begin_step and end_step what the pipeline does is recorded, else nothing. `stream`,
  // the engine's, has nothing to do at either.
  void begin_step(std::int64_t step, Stream& stream);
  struct Shares {
    std::optional<double> bubble;  // none without a pipeline
    std::optional<double> hidden;  // none where nothing ran beside
  };
  // Of the step, over all ranks; neither on the first. All ranks call it together.
  Shares end_step();
  bool done() const { return left_ == 0; }
  // Medians over the counted steps.
  Shares shares() const;

  // A part of the step, while it lives.
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
  // Of collectives, one inside the other never; messages are the pipeline's.
  using Call = CommunicationObserver::Event;
  void begin(const Call& call) override;
  void end(const Call& call) override;
  void leave(const Call&) override {}
  void ran_beside(const Call& call, Transfer::Interval ran, Transfer::Interval waited) override;

 private:
  std::optional<double> bubble() const;
  std::optional<double> hidden() const;

  // Where events of a step are in `marks_`.
  using Mark = std::size_t;
  Mark mark(Stream& stream);
  void read_device();

  using Key = std::pair<What, std::string>;
  struct Begun {
    std::int64_t at = 0;
    Mark mark = 0;  // of a device's work
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
  // Of the walk in this step, ns.
  std::optional<std::int64_t> walk_start_;
  std::int64_t walk_end_ = 0, busy_ = 0;
  std::map<Key, Begun> open_;  // events that have begun
  // Of a device in this step: marks_[0] is its start, on the host's clock device_start_.
  std::deque<trireme::Event> marks_;
  Mark marks_used_ = 0;
  std::int64_t device_start_ = 0;
  bool device_is_named_ = false;
  std::vector<Queued> queued_;
  std::int64_t call_start_ = 0;
  // Of collectives beside this step: when they ran, and when this rank waited.
  std::vector<Transfer::Interval> ran_, waited_;
  bool counts_ = false;  // all but the first step do
  std::vector<double> bubbles_, hiddens_;
};

}  // namespace trireme
