#pragma once
#include "parallel/pipeline/schedule.h"

namespace trireme {

// What a schedule is made for. Stage s stands on rank s % ranks.
struct PipelineShape {
  int ranks = 1;
  int micro_batches = 1;
  int virtual_stages = 1;  // stages of each rank
  int stages() const { return ranks * virtual_stages; }
};

// The published schedules. Each throws ConfigError where it is not defined.

// GPipe (Huang et al. 2019): all forward, then all backward. Holds every micro-batch.
Schedule gpipe(const PipelineShape& shape);

// 1F1B (PipeDream-Flush, Narayanan et al. 2021): forward and backward in turn as soon
// as the first gradient can come. Rank r holds min(ranks - r, micro_batches).
Schedule one_forward_one_backward(const PipelineShape& shape);

// Interleaved 1F1B (Narayanan et al. 2021): each rank has several stages and takes
// groups of `ranks` micro-batches through one after the other, which divides the bubble
// by virtual_stages and sends that many times more. 1F1B when virtual_stages is 1.
Schedule interleaved_one_forward_one_backward(const PipelineShape& shape);

// ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): 1F1B that sends the
// input's gradient on before it works on the weights. Rank r puts the weights off by r
// micro-batches and does them where 1F1B would wait, so that no rank holds more
// micro-batches than 1F1B's first.
Schedule zero_bubble_h1(const PipelineShape& shape);

}  // namespace trireme
