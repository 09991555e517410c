#pragma once
#include <string_view>
#include <vector>

#include "trainer/engine/step_ops.h"
#include "trainer/tools/plan/estimate/workload.h"

namespace trireme {

// Messages of a rank: seconds on the link, and bytes sent.
struct MessageTime {
  double seconds = 0, bytes = 0;
  MessageTime& operator+=(const MessageTime& more);
  MessageTime operator*(double times) const { return {times * seconds, times * bytes}; }
};

// Time of a list of ops on one rank, in seconds.
struct ListTime {
  double products = 0, attention = 0, streams = 0;
  double waiting = 0;  // exposed communication of the tensor, context and expert axes
  double offload = 0;  // exposed copies between the device and the host
  MessageTime tensor, context, expert;
  MessageTime data;  // gradients and weights; not in `waiting`: what overlaps them depends on use

  double seconds() const { return products + attention + streams + waiting + offload; }
  ListTime& operator+=(const ListTime& more);
  ListTime operator*(double times) const;
};

// What one op or message of a list adds to its time, in seconds.
struct OpTime {
  const PlannedOp* op = nullptr;
  // Of an op: roofline and launch. A matmul's result is written after its operands were read.
  double compute = 0, memory = 0, launch = 0;
  // Of a message: its exposed part, all its time on the link, and the bytes that it sends.
  double exposed = 0, link = 0, sent = 0;

  bool is_message() const { return op->kind == PlannedOp::Kind::kMessage; }
  double seconds() const { return compute + memory + launch + exposed; }
};

// Ops run in sequence; messages with `overlaps_next` overlap the next op. Messages of other groups,
// such as those of norms, are neglected. `each` receives the ops and the messages in `waiting`,
// whose seconds are the list's.
ListTime list_time(const PartOps::List& list, const Workload& work, const DeviceProfile& device,
                   std::vector<OpTime>* each = nullptr);

// Slowdown of a matmul against one whose tiles fill all waves of `units` multiprocessors.
double wave_slowdown(const PlannedOp& op, int units);

// The ranks of a group by its name (RankGroups).
GroupShape group_of(std::string_view name, const Workload& work);

}  // namespace trireme
