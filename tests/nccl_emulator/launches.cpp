#include "tests/nccl_emulator/launches.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "model/base/error.h"
#include "tests/cuda_emulator/device_queues.h"
#include "tests/cuda_emulator/ranks.h"
#include "tests/cuda_emulator/streams.h"

namespace trireme::emulator::nccl {
namespace {

// The thread blocks of an operation, each on a multiprocessor.
constexpr int kBlocksOfCollective = 2, kBlocksOfMessages = 1;

std::pair<int, int> ends(const Kernel& kernel, const Op& op) {
  return op.kind == OpKind::kSend ? std::pair(kernel.comm->rank, op.peer)
                                  : std::pair(op.peer, kernel.comm->rank);
}

// Whether any operation connects ranks that were not connected before.
bool come_to_connect(const Kernel& kernel) {
  Clique& clique = *kernel.comm->clique;
  bool is_new = false;
  for (const Op& op : kernel.ops) {
    const bool came = op.kind == OpKind::kSend ? clique.senders.insert(ends(kernel, op)).second
                      : op.kind == OpKind::kReceive
                          ? clique.receivers.insert(ends(kernel, op)).second
                          : clique.connecting.insert(kernel.comm->rank).second;
    is_new = is_new || came;
  }
  return is_new;
}

bool is_connected(const Kernel& kernel) {
  const Clique& clique = *kernel.comm->clique;
  return std::all_of(kernel.ops.begin(), kernel.ops.end(), [&](const Op& op) {
    if (!is_message(op.kind)) return static_cast<int>(clique.connecting.size()) == clique.size;
    const auto pair = ends(kernel, op);
    return clique.senders.count(pair) + clique.receivers.count(pair) == 2;
  });
}

std::string describe(const Kernel& kernel) {
  const Op& op = kernel.ops.front();
  return say("rank ", kernel.comm->rank, "'s ", name_of(op.kind),
             is_message(op.kind) ? say(op.kind == OpKind::kSend ? " to " : " from ", op.peer) : "",
             " in '", kernel.comm->name, "'");
}

void end_one(const std::shared_ptr<Kernel>& kernel) {
  if (--kernel->left > 0) return;
  ++kernel->comm->finished;
  finish_kernel(kernel->stream);
}

void meet_collective(const std::shared_ptr<Kernel>& kernel, const Op& op) {
  Clique& clique = *kernel->comm->clique;
  const std::uint64_t number = kernel->comm->collectives++;
  std::vector<KernelOp>& round = clique.rounds[number];
  round.emplace_back(kernel, &op);
  const Op& other = *round.front().second;
  if (other.kind != op.kind || other.count != op.count || other.type != op.type ||
      other.reduce != op.reduce || (op.kind == OpKind::kBroadcast && other.peer != op.peer)) {
    return fail_job(say("ranks of '", kernel->comm->name, "' disagree: ", name_of(op.kind), " of ",
                        op.count, " and ", name_of(other.kind), " of ", other.count));
  }
  if (static_cast<int>(round.size()) < clique.size) return;
  std::vector<KernelOp> all = std::move(round);
  clique.rounds.erase(number);
  std::sort(all.begin(), all.end(), [](const KernelOp& a, const KernelOp& b) {
    return a.first->comm->rank < b.first->comm->rank;
  });
  move_collective(all);
  for (const KernelOp& each : all) end_one(each.first);
}

void meet_message(const std::shared_ptr<Kernel>& kernel, const Op& op) {
  Clique& clique = *kernel->comm->clique;
  const auto pair = ends(*kernel, op);
  auto& sent = clique.sent[pair];
  auto& received = clique.received[pair];
  (op.kind == OpKind::kSend ? sent : received).emplace_back(kernel, &op);
  while (!sent.empty() && !received.empty()) {
    const KernelOp from = sent.front(), to = received.front();
    sent.pop_front();
    received.pop_front();
    if (from.second->count * size_of(from.second->type) !=
        to.second->count * size_of(to.second->type)) {
      return fail_job(say("a message of ", from.second->count, " for one of ", to.second->count,
                          " in '", kernel->comm->name, "'"));
    }
    move_message(*from.second, *to.second);
    end_one(from.first);
    end_one(to.first);
  }
}

struct LaunchOrder {
  std::uint64_t launched = 0, begun = 0;
};
// Of a device's kernels, whatever their communicators; NCCL_LAUNCH_ORDER_IMPLICIT keeps it.
LaunchOrder& order_on(int device) {
  static std::uint64_t of_job = 0;
  static std::map<int, LaunchOrder> orders;
  if (of_job != job_number()) orders.clear();
  of_job = job_number();
  return orders[device];
}

void queue(const std::shared_ptr<Kernel>& kernel) {
  const ncclComm_t comm = kernel->comm;
  const std::uint64_t number = comm->launched++;
  LaunchOrder& order = order_on(comm->device);
  const bool is_ordered = job_variable("NCCL_LAUNCH_ORDER_IMPLICIT", "0") == "1";
  const std::uint64_t place = order.launched++;
  kernel->left = kernel->ops.size();
  queue_kernel(kernel->stream,
               {.multiprocessors =
                    is_message(kernel->ops.front().kind) ? kBlocksOfMessages : kBlocksOfCollective,
                .ready =
                    [=, &order] {
                      return comm->finished == number && (!is_ordered || order.begun == place);
                    },
                .begin =
                    [=, &order] {
                      ++order.begun;
                      for (const Op& op : kernel->ops) {
                        if (is_message(op.kind)) {
                          meet_message(kernel, op);
                        } else {
                          meet_collective(kernel, op);
                        }
                      }
                    },
                .waits = [] { return std::string("its peers"); },
                .name = describe(*kernel)});
}

}  // namespace

void launch(const std::shared_ptr<Kernel>& kernel) {
  const ncclComm_t comm = kernel->comm;
  const bool is_new = come_to_connect(*kernel);
  if (comm->is_blocking) {
    if (is_new) {
      wait_until([kernel] { return is_connected(*kernel); },
                 say("the connection of ", describe(*kernel)));
      wait_for_running_kernels(say("the memory of ", describe(*kernel)));
    }
    return queue(kernel);
  }
  ++comm->calls_in_progress;
  run_later([kernel] { return is_connected(*kernel); },
            [kernel, comm] {
              queue(kernel);
              --comm->calls_in_progress;
            },
            say("the connection of ", describe(*kernel)));
}

}  // namespace trireme::emulator::nccl
