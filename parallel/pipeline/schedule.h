#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// What one stage does to one micro-batch. A schedule is a list of these, nothing
// more: it can be printed, compared and checked without running anything.
struct Action {
  enum class Kind : std::uint8_t { kForward, kBackward };
  Kind kind;
  int micro_batch;
  bool operator==(const Action&) const = default;
};
using Schedule = std::vector<Action>;

// 1F1B (PipeDream-Flush, Narayanan et al. 2021): at most min(stages - stage,
// micro_batches) activations in flight.
Schedule one_forward_one_backward(int stage, int stages, int micro_batches);
// GPipe (Huang et al. 2019): all forward, then all backward.
Schedule all_forward_all_backward(int micro_batches);

// Micro-batches between their forward and their backward at the same time, at most.
int most_in_flight(const Schedule& schedule);

// Plays the schedules of all stages against each other. Empty if every
// micro-batch goes forward and backward once on each and nobody waits for ever;
// otherwise what is wrong, in words.
std::string complaint(const std::vector<Schedule>& stages, int micro_batches);

}  // namespace trireme
