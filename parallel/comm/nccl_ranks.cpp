#include "parallel/comm/nccl_ranks.h"

#include <cstring>
#include <utility>

namespace trireme::comm {
std::vector<ncclUniqueId> share_ids(Communicator& host, std::size_t count) {
  constexpr std::size_t kWords = sizeof(ncclUniqueId) / sizeof(std::int32_t);
  std::vector<std::int32_t> words(1 + count * kWords);  // first whether it failed
  std::vector<ncclUniqueId> ids(count);
  if (host.rank() == 0) {
    for (ncclUniqueId& id : ids) words[0] |= ncclGetUniqueId(&id) == ncclSuccess ? 0 : 1;
    std::memcpy(words.data() + 1, ids.data(), count * sizeof(ncclUniqueId));
  }
  Stream stream;
  host.broadcast(stream,
                 {reinterpret_cast<std::byte*>(words.data()), DType::kI32,
                  Shape{static_cast<std::int64_t>(words.size())}, Device{}},
                 0);
  if (words[0] != 0) {
    throw EnvironmentError(say("NCCL cannot be initialized: ", ncclGetLastError(nullptr)));
  }
  std::memcpy(ids.data(), words.data() + 1, count * sizeof(ncclUniqueId));
  return ids;
}

ncclDataType_t nccl_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kBf16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI32:
      return ncclInt32;
  }
  return ncclInt8;
}

NcclRanks::NcclRanks(Communicator& host, const std::string& name, Device on,
                     const NcclGroups::Options& options)
    : ordered_sums(options.ordered_sums),
      device(on),
      stream(on, Stream::Priority::kUrgent),
      buffer(options.buffer_bytes, on),
      line(share_ids(host, 1).front(), {"start", name, host.rank(), host.size()}) {
  const CallSite site{"connect", name, host.rank(), host.size()};
  require(buffer.bytes() >= 16 * static_cast<std::size_t>(host.size()), "group '", name,
          "': ", buffer.bytes(), " bytes are not enough for ", host.size(), " ranks");
  const cudaStream_t queue = queue_of(stream);
  std::byte* const own = buffer.data() + 16 * host.rank();
  line.queue(site, [&](ncclComm_t ranks) {
    line.check(ncclAllGather(own, buffer.data(), 16, ncclInt8, ranks, queue), site);
  });
  stream.synchronize();
  if (ordered_sums) {
    connect_pairs(site);
    return;
  }
  line.queue(site, [&](ncclComm_t ranks) {
    line.check(ncclAllReduce(own, own, 4, ncclFloat32, ncclSum, ranks, queue), site);
  });
  stream.synchronize();
}

void NcclRanks::connect_pairs(const CallSite& site) {
  if (std::exchange(has_pairs, true)) return;
  const cudaStream_t queue = queue_of(stream);
  std::byte* const own = buffer.data() + 16 * site.rank;
  line.queue(site, [&](ncclComm_t ranks) {
    for (int i = 1; i < site.size; ++i) {
      const int to = (site.rank + i) % site.size, from = (site.rank + site.size - i) % site.size;
      line.check(ncclSend(own, 16, ncclInt8, to, ranks, queue), site);
      line.check(ncclRecv(buffer.data() + 16 * from, 16, ncclInt8, from, ranks, queue), site);
    }
  });
  stream.synchronize();
}

}  // namespace trireme::comm
