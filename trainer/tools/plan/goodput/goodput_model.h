#pragma once
#include <array>
#include <string>
#include <vector>

namespace trireme {

// A kind of failure: the fraction of all failures that it is, and seconds until it is detected and
// from then until the first new step begins.
struct FailureKind {
  std::string name;
  double share = 0, detect = 0, restart = 0;
  bool from_disk = false;   // training resumes from a checkpoint, not from a snapshot in memory
  bool loses_node = false;  // a node is missing until it is repaired
};

// Nodes that are lost, in a run that continues on fewer of them and grows when they return.
struct NodeRepair {
  double seconds = 0;     // until a lost node is back; 0: a spare replaces it at once
  double speed_lost = 0;  // fraction of the run's speed, for each node that is missing
  double growth = 0;      // seconds of the restart by which the run grows again
};

// Failures of a run, exponentially distributed, and what they and the saves cost in seconds.
struct FailureModel {
  double between = 0;              // mean time between failures of the whole run
  std::vector<FailureKind> kinds;  // their shares sum to 1
  double snapshot = 0;             // that one in memory blocks training; 0 without them
  double save = 0;                 // that a checkpoint blocks training
  double write = 0;                // until an asynchronous checkpoint can be restored
  NodeRepair repair = {};

  double disk_share() const;             // fraction of failures that resume from disk
  double missing_nodes() const;          // on average
  double between_disk_failures() const;  // infinite without such failures
  double between_memory_failures() const;
};

// Seconds of training between snapshots in memory, and snapshots per checkpoint. Without snapshots
// each is a checkpoint.
struct SaveIntervals {
  double seconds = 0;
  double per_disk = 1;
};

// Fractions of a run's wall time; they sum to 1.
struct GoodputShares {
  double useful = 0;  // steps that count, in time at the full speed
  double saves = 0;   // training is blocked
  double lost_steps = 0, detection = 0, restart = 0, fewer_nodes = 0;
};

// What takes the time that is not useful.
struct GoodputPart {
  const char* name;
  const char* key;  // in JSON
  double GoodputShares::*share;
};
inline constexpr std::array kGoodputLosses{
    GoodputPart{"saves", "saves", &GoodputShares::saves},
    GoodputPart{"lost steps", "lost_steps", &GoodputShares::lost_steps},
    GoodputPart{"detection", "detection", &GoodputShares::detection},
    GoodputPart{"restart", "restart", &GoodputShares::restart},
    GoodputPart{"fewer nodes", "fewer_nodes", &GoodputShares::fewer_nodes}};

// Expected shares of a long run. Failures may also occur while training recovers, which then starts
// over; one level of saves gives Daly's expected time (2006, section 3).
GoodputShares expected_goodput(const FailureModel& model, const SaveIntervals& intervals);

}  // namespace trireme
