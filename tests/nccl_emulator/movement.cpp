#include <algorithm>
#include <cstring>

#include "model/base/error.h"
#include "model/ops/dispatch.h"
#include "tests/cuda_emulator/device_memory.h"
#include "tests/nccl_emulator/clique.h"

namespace trireme::emulator::nccl {
namespace {

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
      return DType::kF16;
    case ncclBfloat16:
      return DType::kBf16;
    case ncclFloat64:
      return DType::kF64;
    case ncclFloat32:
      return DType::kF32;
    default:
      throw Error("the emulated NCCL reduces only floating-point numbers");
  }
}

// Elements [first, first + count) of all ranks, as a ring adds them: every element starts at the
// rank after its owner, and is rounded at every hop.
template <class T>
std::vector<T> reduced(const std::vector<KernelOp>& ranks, std::size_t first, std::size_t count,
                       std::size_t total) {
  using A = Accumulator<T>;
  std::vector<T> sums(count);
  const std::size_t of_owner = (total + ranks.size() - 1) / ranks.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t owner = (first + i) / of_owner;
    T sum{};
    for (std::size_t hop = 1; hop <= ranks.size(); ++hop) {
      const Op& op = *ranks[(owner + hop) % ranks.size()].second;
      const T value = reinterpret_cast<const T*>(op.from)[first + i];
      const A a = static_cast<A>(sum), b = static_cast<A>(value);
      sum = hop == 1 ? value : T(op.reduce == ncclMax ? std::max(a, b) : a + b);
    }
    sums[i] = sum;
  }
  return sums;
}

void reduce(const std::vector<KernelOp>& ranks, bool scattered) {
  const Op& first = *ranks.front().second;
  with_float(dtype_of(first.type), [&](auto zero) {
    using T = decltype(zero);
    const std::size_t total = scattered ? first.count * ranks.size() : first.count;
    const std::vector<T> sums = reduced<T>(ranks, 0, total, total);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const T* from = sums.data() + (scattered ? r * first.count : 0);
      std::memcpy(ranks[r].second->to, from, first.count * sizeof(T));
    }
  });
}

}  // namespace

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kSend:
      return "send";
    case OpKind::kReceive:
      return "receive";
    case OpKind::kAllGather:
      return "all-gather";
    case OpKind::kAllReduce:
      return "all-reduce";
    case OpKind::kReduceScatter:
      return "reduce-scatter";
    case OpKind::kBroadcast:
      return "broadcast";
  }
  return "";
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclFloat64:
      return 8;
  }
  return 0;
}

void move_message(const Op& from, const Op& to) {
  const DeviceMemory::Access access;
  std::memcpy(to.to, from.from, from.count * size_of(from.type));
}

void move_collective(const std::vector<KernelOp>& ranks) {
  const DeviceMemory::Access access;
  const Op& first = *ranks.front().second;
  const std::size_t bytes = first.count * size_of(first.type);
  if (first.kind == OpKind::kAllReduce) return reduce(ranks, /*scattered=*/false);
  if (first.kind == OpKind::kReduceScatter) return reduce(ranks, /*scattered=*/true);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Op& own = *ranks[r].second;
    if (own.kind == OpKind::kBroadcast) {
      std::memmove(own.to, ranks[static_cast<std::size_t>(own.peer)].second->from, bytes);
      continue;
    }
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      std::memmove(own.to + other * bytes, ranks[other].second->from, bytes);
    }
  }
}

}  // namespace trireme::emulator::nccl
