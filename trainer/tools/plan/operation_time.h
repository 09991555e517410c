#pragma once
#include <vector>

#include "trainer/tools/plan/operations.h"

namespace trireme {

// Time of a list of operations on one rank, in seconds.
struct ListTime {
  double products = 0, attention = 0, streams = 0;
  double waiting = 0;  // exposed communication
  struct Messages {
    double seconds = 0, bytes = 0;  // on the link; sent by the rank
  };
  Messages tensor, context;

  double seconds() const { return products + attention + streams + waiting; }
  ListTime& operator+=(const ListTime& more);
  ListTime operator*(double times) const;
};

// Roofline: the larger of compute and memory time, plus the launch.
double operation_seconds(const Operation& operation, const Workload& work,
                         const DeviceProfile& device);

// Time of a message; 0 if its axis has one rank.
double message_seconds(const Operation& message, const Workload& work, const Network& network);

// Operations run in sequence; messages with `overlaps_next` overlap the next operation.
ListTime list_time(const std::vector<Operation>& list, const Workload& work,
                   const DeviceProfile& device);

}  // namespace trireme
