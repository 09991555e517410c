#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nccl.h>

// What is behind the handles of the emulated NCCL: an operation is a kernel that keeps its
// multiprocessors until the kernels of its peers have come, and then moves the data of all.
namespace trireme::emulator::nccl {

enum class OpKind : std::uint8_t {
  kSend,
  kReceive,
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kBroadcast
};
inline bool is_message(OpKind kind) {
  return kind == OpKind::kSend || kind == OpKind::kReceive;
}
const char* name_of(OpKind kind);

struct Op {
  OpKind kind;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t reduce = ncclSum;
  int peer = -1;  // of a message, or the root
};
std::size_t size_of(ncclDataType_t type);

// The launch of one group of calls of a communicator.
struct Kernel {
  ncclComm_t comm;
  cudaStream_t stream;
  std::vector<Op> ops;
  std::size_t left = 0;  // operations that wait for peers
};
using KernelOp = std::pair<std::shared_ptr<Kernel>, const Op*>;

// The ranks of a communicator.
struct Clique {
  int size = 0;
  int joined = 0;
  std::map<std::uint64_t, std::vector<KernelOp>> rounds;  // collectives under way, by their number
  std::map<std::pair<int, int>, std::deque<KernelOp>> sent, received;  // by {from, to}
  // Who has come to connect: for collectives, and for messages by {from, to}.
  std::set<int> connecting;
  std::set<std::pair<int, int>> senders, receivers;
};

// Moves the data of a collective: the operation of every rank, in rank order.
void move_collective(const std::vector<KernelOp>& ranks);
void move_message(const Op& from, const Op& to);

}  // namespace trireme::emulator::nccl

struct ncclComm {
  std::shared_ptr<trireme::emulator::nccl::Clique> clique;
  int rank = 0;
  int device = 0;
  bool is_blocking = true;
  std::string name;
  int calls_in_progress = 0;
  std::uint64_t launched = 0, finished = 0;  // kernels
  std::uint64_t collectives = 0;             // that have begun
};
