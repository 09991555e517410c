#pragma once
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "trainer/tools/plan/estimate/estimate.h"
#include "trainer/tools/plan/estimate/workload.h"
#include "trainer/tools/plan/search/layouts.h"
#include "trainer/tools/plan/search/recent.h"

namespace trireme {

// The trainer's division of a model's layers into so many stages.
struct StageDivision {
  std::vector<std::int64_t> layers_per_stage;
  std::vector<StageLayers> distinct;
  std::vector<std::size_t> of_stage;  // by stage: index into `distinct`
};

// Of a layout: StepOps::kinds, and the ends.
struct LayoutOps {
  const std::vector<PartOps>& kinds;
  const EndOps& ends;
};

// What the layouts of a search have in common, made once: a block's ops do not depend on the number
// of pipeline ranks, nor its times on the schedule.
class LayoutParts {
 public:
  // The config's model, training and optimizer are those of all layouts; it and the profile outlive
  // this.
  LayoutParts(const RunConfig& config, const DeviceProfile& profile);

  // Without updates, of few data and pipeline ranks. The references stay valid.
  LayoutOps ops_of(const Workload& work);
  // Times of a layout by these ops of it.
  StepTimes times_of(const Workload& work, const LayoutOps& recorded);
  const StageDivision& division(std::int64_t stages);
  const Simulation& simulation(const Workload& work, const ScheduleChoice& choice);
  const std::vector<std::size_t>& kind_of() const { return kind_of_; }  // as StepOps::kind_of

 private:
  // What model states depend on, and what the ops of blocks and of the ends do.
  using StateKey = std::tuple<std::int64_t, bool, ContextShape, std::int64_t, std::int64_t,
                              std::int64_t, std::int64_t, std::int64_t>;
  using BlockKey = std::tuple<StateKey, std::int64_t, Recompute>;
  using EndsKey = std::tuple<std::int64_t, bool, std::int64_t, std::int64_t, std::int64_t,
                             std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  struct EndTimes {
    PartTimes first, last;
    double transfer = 0, tied = 0;
  };
  // Those of one EndOps depend on the data and pipeline ranks.
  using EndTimesKey = std::tuple<const EndOps*, std::int64_t, std::int64_t, std::int64_t>;
  using ScheduleKey = std::tuple<const NamedSchedule*, int, int, int>;

  const std::vector<PartOps>& blocks_of(const Workload& work);
  const EndOps& ends_of(const Workload& work);
  const EndTimes& end_times(const Workload& work, const EndOps& ends);

  const RunConfig& config_;
  const DeviceProfile& profile_;
  std::vector<std::size_t> kind_of_;
  std::vector<std::int64_t> kinds_;                                       // the first layer of each
  Recent<StateKey, std::vector<std::unique_ptr<BlockRecorder>>> states_;  // by kind
  std::map<BlockKey, std::vector<PartOps>> blocks_;                       // the same
  std::map<EndsKey, EndOps> ends_;
  std::map<EndTimesKey, EndTimes> end_times_;
  std::map<std::int64_t, StageDivision> divisions_;
  std::map<ScheduleKey, Simulation> simulations_;
};

// The copies by which ZeRO-2 and 3 add to their shards, of which a bound by other stages has none.
bool is_copy(const PlannedOp& op);

}  // namespace trireme
