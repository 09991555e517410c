#pragma once
#include "parallel/pipeline/schedule.h"

namespace trireme {

// Parameters of a schedule. Stage s is on rank s % ranks.
struct PipelineShape {
  int ranks = 1;
  int micro_batches = 1;
  int virtual_stages = 1;  // stages per rank
  int stages() const { return ranks * virtual_stages; }
};

// The published schedules, for shapes that they support (NamedSchedule).

// GPipe (Huang et al. 2019): all forwards, then all backwards. All micro-batches are in flight.
Schedule gpipe(const PipelineShape& shape);

// 1F1B (PipeDream-Flush, Narayanan et al. 2021): alternates forward and backward as soon as the
// first gradient arrives. Rank r has min(ranks - r, micro_batches) micro-batches in flight.
Schedule one_forward_one_backward(const PipelineShape& shape);

// Interleaved 1F1B (Narayanan et al. 2021): each rank has several stages and runs groups of `ranks`
// micro-batches through one stage after the other, which divides the bubble by virtual_stages and
// multiplies the messages by it. Equals 1F1B if virtual_stages is 1.
Schedule interleaved_one_forward_one_backward(const PipelineShape& shape);

// ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): 1F1B that sends the input gradient
// before it computes weight gradients. Rank r defers weight gradients by r micro-batches and runs
// them where 1F1B would idle, so that no rank has more micro-batches in flight than the first rank
// of 1F1B.
Schedule zero_bubble_h1(const PipelineShape& shape);

}  // namespace trireme
