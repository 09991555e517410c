#pragma once
#include <vector>

#include "trainer/tools/plan/layout_plan.h"
#include "trainer/tools/plan/search/layout_parts.h"
#include "trainer/tools/plan/state_theory.h"

namespace trireme {

// Lower bounds of the step time and of the memory of layouts, for a search that skips what cannot
// be among the best.
class LayoutBounds {
 public:
  // The config's model, training and optimizer are those of all layouts; it and the profile outlive
  // this.
  LayoutBounds(const RunConfig& config, const DeviceProfile& profile, Device device,
               double expert_imbalance);

  // Seconds of all layouts of a family: by FLOPs alone, and by the ops of its layers and the time
  // that its pipeline takes to fill and to drain.
  double seconds_by_flops(const RunConfig& family) const;
  double seconds_by_layers(const RunConfig& family);

  // Bytes of all layouts of a family.
  double bytes(const RunConfig& family);
  // Bytes of the model state of a rank, in the mean of the pipeline ranks.
  double state_bytes(const RunConfig& layout) const;

  // Layouts that differ only by their schedules.
  class Member {
   public:
    Member(LayoutBounds& bounds, const RunConfig& layout);
    // By the time that passes before and after a rank's own micro-batches.
    double seconds(const ScheduleChoice& choice);
    // By a simulation of the schedule; closer, and slower.
    double seconds_by_simulation(const ScheduleChoice& choice);
    // With gradient reduction and weight gathers too: all but the update, whose shards depend on
    // the number of data ranks.
    double seconds_without_update(const ScheduleChoice& choice);
    // Model state, activations in flight and workspace of the first pipeline rank, which has the
    // most of them.
    double bytes(const ScheduleChoice& choice) const;

   private:
    LayoutBounds& bounds_;
    Workload work_;
    const LayoutOps recorded_;  // with fewer data ranks
    const StepTimes times_;
    StepTimes without_update_;
  };

  LayoutParts& parts() { return parts_; }
  const ModelPlan& model() const { return model_; }

 private:
  // Parameters of a part of the model.
  struct Parameters {
    double dense = 0, experts = 0;
  };

  // Of a micro-batch in a stage.
  struct PassSeconds {
    double forward = 0, backward = 0;
    void add(double times, const PassSeconds& other) {
      forward += times * other.forward;
      backward += times * other.backward;
    }
  };

  template <class OfStage>  // PassSeconds of StageLayers
  double pipeline_seconds(const Workload& work, const ScheduleChoice& choice, double transfer,
                          const OfStage& seconds_of);
  Workload least_work(const RunConfig& family) const;
  double bytes(const RunConfig& layout, const LayoutOps& ops, const ScheduleChoice& choice);
  Parameters parameters_of(const ModelConfig& model) const;
  double state_bytes(const Parameters& parameters, const ParallelismConfig& layout) const;
  // Multiplies the times of all layouts: all wait for the slowest node, and a rank that shares
  // cores is at most as fast as while the others wait.
  double slowdown(std::int64_t ranks) const {
    return (1 + straggling(profile_.network, ranks)) / profile_.pace(1);
  }

  const DeviceProfile& profile_;
  Device device_;
  double expert_imbalance_;
  ModelPlan model_;
  StateTheory theory_;
  std::vector<Parameters> kinds_;
  double embedding_ = 0;  // parameters of the first stage's table
  const Parameters all_;
  LayoutParts parts_;
};

}  // namespace trireme
