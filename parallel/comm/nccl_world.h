#pragma once
#include <mpi.h>

#include <memory>
#include <string>

#include "model/device/device.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// How NCCL joins the ranks of a world, each with a GPU of its own. Groups are split off it.
class NcclWorld {
 public:
  // Collective over `world`. Null in a build without NCCL.
  static std::unique_ptr<NcclWorld> form(MPI_Comm world, int rank, int size, Device device);

  NcclWorld() = default;
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;
  virtual ~NcclWorld() = default;

  // Collective over the world: the group of `host`, which moves its tensors of host memory, for
  // tensors of the device too. Ranks of one group give one colour. `host` may be of one rank:
  // it is given back. `messages`: whether ranks will send to each other.
  virtual std::unique_ptr<Communicator> split(std::unique_ptr<Communicator> host, int color,
                                              const std::string& name, bool messages) = 0;
};

}  // namespace trireme
