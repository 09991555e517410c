#pragma once
#include "parallel/mesh/mesh.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/tools/plan/device/device_profile.h"

namespace trireme {

// A training step of a layout.
struct Workload {
  EngineSpec spec;
  MeshShape mesh = {};  // both data axes set
  // Rows of the busiest rank among those that divide the experts, as a multiple of the mean.
  double expert_imbalance = 1;

  std::int64_t ranks() const { return mesh.ranks(); }
  std::int64_t tokens() const;   // per step, over all data-parallel ranks
  NumberFormat numbers() const;  // of the blocks' matmuls; the head uses at least kHalf
};

// The workload of a config whose data-parallel degrees are set (for_ranks).
Workload workload_of(const RunConfig& config, double expert_imbalance = 1);

}  // namespace trireme
