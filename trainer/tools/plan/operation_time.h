#pragma once
#include <vector>

#include "trainer/tools/plan/operations.h"

namespace trireme {

// What a list of operations takes on one rank.
struct ListTime {
  double products = 0, attention = 0, streams = 0;
  double waiting = 0;  // for messages that nothing hides
  struct Messages {
    double seconds = 0, bytes = 0;  // on the link; sent
  };
  Messages tensor, context;

  double seconds() const { return products + attention + streams + waiting; }
  ListTime& operator+=(const ListTime& more);
  ListTime operator*(double times) const;
};

// The roofline: the longer of computing and moving, and a launch.
double operation_seconds(const Operation& operation, const Workload& work,
                         const DeviceProfile& device);

// Of a message; 0 where its axis has one rank.
double message_seconds(const Operation& message, const Workload& work, const Network& network);

// One operation after the other, but for messages that run beside the one after them.
ListTime list_time(const std::vector<Operation>& list, const Workload& work,
                   const DeviceProfile& device);

}  // namespace trireme
