#pragma once
#include <mpi.h>

#include <memory>
#include <string>

#include "model/device/device.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// The NCCL communicator of all ranks, one GPU each. Groups are split from it.
class NcclWorld {
 public:
  // Collective over `world`. Null in a build without NCCL.
  static std::unique_ptr<NcclWorld> form(MPI_Comm world, int rank, int size, Device device);

  NcclWorld() = default;
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;
  virtual ~NcclWorld() = default;

  // Adds device tensors to the group of `host`, which continues to move tensors in host memory.
  // Collective over the world; the ranks of a group give the same color. A `host` of size 1 is
  // returned unchanged. `messages`: whether the ranks send to each other.
  virtual std::unique_ptr<Communicator> split(std::unique_ptr<Communicator> host, int color,
                                              const std::string& name, bool messages) = 0;
};

}  // namespace trireme
