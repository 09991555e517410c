#pragma once
#include <functional>
#include <string>
#include <vector>

#include "parallel/pipeline/action_table.h"

namespace trireme {

// Cost of actions by stage, in any unit of time. A whole backward costs the sum of its halves.
struct ActionCosts {
  std::vector<double> forward, backward_input, backward_weight;
  double transfer = 0;  // from the end of an action until another rank has its output

  // Unit costs: one per half, so a backward costs twice a forward.
  static ActionCosts unit(int stages);
  double of(const Action& action) const;
};

// Simulated times of all actions of each rank.
struct Timeline {
  struct Span {
    double start = 0, end = 0;
  };
  std::vector<std::vector<Span>> ranks;  // as in the schedule
  double makespan = 0;                   // until the last rank is done
  double busy = 0;                       // sum over ranks

  // Bubble as a fraction of total rank time: (p - 1) / (m + p - 1) for GPipe and 1F1B with p equal
  // stages and m micro-batches.
  double idle_fraction() const;
  // Bubble relative to the ideal time, the work evenly distributed without idling: (p - 1) / m in
  // the case above.
  double overhead() const;
  double idle_fraction(int rank) const;
};

// A rank starts an action as soon as the previous one is done, its input has arrived and an outbox
// for its output is free (see action_table.h); transfers take no compute time. The schedule has
// passed the checker. Throws if it deadlocks for lack of outboxes.
Timeline simulate(const Schedule& schedule, const ActionCosts& costs, int outboxes = kUnlimited);

// The same for many costs of one schedule, whose order of execution does not depend on them.
class Simulation {
 public:
  explicit Simulation(Schedule schedule, int outboxes = kUnlimited);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  const Schedule& schedule() const { return schedule_; }
  Timeline run(const ActionCosts& costs) const;

 private:
  const Schedule schedule_;
  const ActionTable table_;
  const Play played_;
};

// Smallest number of outboxes, at least two, with which equal stages never wait for one.
int outboxes_needed(const Schedule& schedule);

// Draws one line per rank, with the makespan `columns` wide: "F3--" is the forward of micro-batch
// 3, "B3" its backward, "I3" and "W3" the halves of its backward, dots are idle time. With several
// stages per rank the stage comes first, as in "2F3".
std::string draw(const Schedule& schedule, const Timeline& timeline, int columns);

// As simulate(), for ranks that share hardware: while `busy` ranks compute, each runs at pace(busy)
// times the speed of `costs`; pace increases as fewer ranks are busy.
Timeline simulate_sharing(const Schedule& schedule, const ActionCosts& costs,
                          const std::function<double(int busy)>& pace);

}  // namespace trireme
