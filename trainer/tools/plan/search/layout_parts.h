#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "trainer/tools/plan/estimate/estimate.h"
#include "trainer/tools/plan/estimate/workload.h"
#include "trainer/tools/plan/search/layouts.h"

namespace trireme {

// The trainer's division of a model's layers into so many stages.
struct StageDivision {
  std::vector<std::int64_t> layers_per_stage;
  std::vector<StageLayers> distinct;
  std::vector<std::size_t> of_stage;  // by stage: index into `distinct`
};

// What the layouts of a search have in common, made once: a block's ops do not depend on the number
// of pipeline ranks, nor its times on the schedule.
class LayoutParts {
 public:
  // The config's model, training and optimizer are those of all layouts; it and the profile outlive
  // this.
  LayoutParts(const RunConfig& config, const DeviceProfile& profile);

  // Without updates, of few data and pipeline ranks. The reference stays valid.
  const StepOps& ops_of(const Workload& work);
  // Times of a layout by these ops of it.
  StepTimes times_of(const Workload& work, const StepOps& recorded) const;
  const StageDivision& division(std::int64_t stages);
  const Simulation& simulation(const Workload& work, const ScheduleChoice& choice);
  const std::vector<std::size_t>& kind_of() const { return kind_of_; }  // as StepOps::kind_of

 private:
  using OpsKey =
      std::tuple<std::int64_t, bool, ContextShape, std::int64_t, std::int64_t, std::int64_t,
                 std::int64_t, std::int64_t, std::int64_t, std::int64_t, Recompute>;
  using ScheduleKey = std::tuple<const NamedSchedule*, int, int, int>;

  const RunConfig& config_;
  const DeviceProfile& profile_;
  std::vector<std::size_t> kind_of_;
  std::size_t kinds_ = 0;
  std::map<OpsKey, StepOps> ops_;
  std::map<std::int64_t, StageDivision> divisions_;
  std::map<ScheduleKey, Simulation> simulations_;
};

// The copies by which ZeRO-2 and 3 add to their shards, of which a bound by other stages has none.
bool is_copy(const PlannedOp& op);

}  // namespace trireme
