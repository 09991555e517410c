#pragma once
#include "parallel/mesh/mesh.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/tools/plan/device_profile.h"

namespace trireme {

// A training step of a layout.
struct Workload {
  EngineSpec spec;
  MeshShape mesh = {};  // both data axes set

  std::int64_t ranks() const { return mesh.ranks(); }
  std::int64_t tokens() const;   // per step, over all data-parallel ranks
  NumberFormat numbers() const;  // of the blocks' matmuls; the head uses at least kHalf
};

// The workload of a config whose data-parallel degrees are set (for_ranks).
Workload workload_of(const RunConfig& config);

}  // namespace trireme
