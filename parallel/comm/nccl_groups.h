#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "model/device/device.h"
#include "parallel/comm/buffer_bytes.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// The NCCL communicators of this process's GPU, one GPU per rank. Groups with equal members share
// one, and its buffer, so that device memory is taken once per distinct set of ranks.
class NcclGroups {
 public:
  struct Options {
    // Sums by one fixed tree, with the bits of MPI and of any number of ranks, in place of NCCL's
    // reductions, which are faster.
    bool ordered_sums = false;
    std::size_t buffer_bytes = comm::nccl_buffer_bytes(ordered_sums);  // of a set of ranks
  };

  // Null in a build without NCCL.
  static std::unique_ptr<NcclGroups> create(Device device, const Options& options);

  NcclGroups() = default;
  NcclGroups(const NcclGroups&) = delete;
  NcclGroups& operator=(const NcclGroups&) = delete;
  virtual ~NcclGroups() = default;

  // Adds device tensors to the group of `host`, whose `ranks` are world ranks in the group's order;
  // `host` continues to move tensors in host memory. Collective over the group. A `host` of size 1
  // is returned unchanged. Of `messages` other ones work too, but connect their ranks when they are
  // first sent, which waits for every kernel that runs. Throws EnvironmentError on all ranks of the
  // group if NCCL cannot be initialized.
  virtual std::unique_ptr<Communicator> add_device(std::unique_ptr<Communicator> host,
                                                   const std::vector<int>& ranks,
                                                   const std::string& name, Messages messages) = 0;
};

}  // namespace trireme
