#pragma once
#include <string>
#include <vector>

#include "parallel/pipeline/play.h"

namespace trireme {

// What an action takes, by stage; any unit of time. A whole backward takes what its
// halves take together.
struct ActionCosts {
  std::vector<double> forward, backward_input, backward_weight;
  double transfer = 0;  // from an action's end until another rank has its output

  // One for each part of every stage: a backward takes twice a forward.
  static ActionCosts unit(int stages);
  double of(const Action& action) const;
};

// When each rank does what.
struct Timeline {
  struct Span {
    double start = 0, end = 0;
  };
  std::vector<std::vector<Span>> ranks;  // as in the schedule
  double makespan = 0;                   // until the last rank is done
  double busy = 0;                       // summed over ranks

  // The bubble as the part of all ranks' time in which they wait: (p - 1) / (m + p - 1)
  // for GPipe and 1F1B with p equal stages and m micro-batches.
  double idle_fraction() const;
  // The bubble as what it adds to the time that the work would take, shared out evenly
  // and without waiting: (p - 1) / m there.
  double overhead() const;
  double idle_fraction(int rank) const;
};

// Every rank starts an action as soon as the one before is done, its input is there and
// so is an outbox for what it sends (see play.h); transfers take no rank's time. The
// schedule has passed the checker. Throws if so few outboxes make it wait for ever.
Timeline simulate(const Schedule& schedule, const ActionCosts& costs, int outboxes = kUnlimited);

// The fewest outboxes, but at least two, with which equal stages never wait for one.
int outboxes_needed(const Schedule& schedule);

// One line for each rank, `columns` wide for the makespan: "F3--" is micro-batch 3 going
// forward, "B3", "I3" and "W3" backward, whole or by halves, and dots are waiting. With
// several stages on a rank, the stage comes first, as in "2F3".
std::string draw(const Schedule& schedule, const Timeline& timeline, int columns);

}  // namespace trireme
