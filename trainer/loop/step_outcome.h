#pragma once
#include <cstdint>
#include <vector>

#include "data/left_out.h"
#include "trainer/engine/engine.h"
#include "trainer/loop/step_trace.h"

namespace trireme {

// What an attempt at a step was trained on and what came of it; the same on all ranks, except
// for `seconds`.
struct StepOutcome {
  std::int64_t step = 0;
  std::int64_t attempt = 1;                 // at this step, from 1
  data::SampleRange samples;                // of the training order
  std::vector<data::SampleRange> left_out;  // samples since the step before, not trained on
  std::int64_t sequences = 0, tokens = 0;   // trained on
  std::uint64_t hash = 0;                   // the sum of their sample_hash
  double lr = 0;
  double loss_scale = 1;
  Engine::StepResult result;
  StepTrace::Shares traced;
  double seconds = 0;
};

// What all ranks agree on after each step: the maximum over the ranks.
struct RunStatus {
  int signal = 0;  // that asked the run to stop
  bool gemm_choices_changed = false;
  std::uint64_t memory_peak_bytes = 0;
  std::uint64_t process_peak_bytes = 0;
  bool is_writing = false;  // a shard of the checkpoint in progress
};

}  // namespace trireme
