#pragma once
#include <string>
#include <vector>

#include "model/device/memory.h"
#include "model/device/stream.h"
#include "parallel/comm/nccl_groups.h"
#include "parallel/comm/nccl_line.h"

namespace trireme::comm {

// Ids for so many NCCL communicators of a group, the same on all its ranks. Collective. Throws
// EnvironmentError on all of them if NCCL cannot be initialized.
std::vector<ncclUniqueId> share_ids(Communicator& host, std::size_t count);

ncclDataType_t nccl_type_of(DType dtype);

inline cudaStream_t queue_of(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.handle());
}

// What the groups of one set of ranks share: the NCCL communicator of their collectives, its
// high-priority stream and its buffer. Collectives of such groups run one after the other, as NCCL
// runs those of one communicator.
//
// Internal to parallel/comm, in builds with CUDA.
struct NcclRanks {
  // Collective over the ranks of `host`. Connects them: a connection takes device memory, which a
  // process cannot get while one of its kernels waits for a message.
  NcclRanks(Communicator& host, const std::string& name, Device device,
            const NcclGroups::Options& options);
  // Connects every rank to every other, once, for exchanges. Collective.
  void connect_pairs(const CallSite& site);

  bool ordered_sums;
  Device device;
  Stream stream;  // before the line: sets the current device
  Memory buffer;
  NcclLine line;
  bool has_pairs = false;
};

}  // namespace trireme::comm
