#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "parallel/comm/buffer_bytes.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/launcher.h"
#include "parallel/comm/recorded_communicator.h"
#include "parallel/comm/shared_memories.h"

namespace trireme {

class NcclGroups;

// The processes of one launch (MPI_COMM_WORLD), or this process alone. Initializes and finalizes
// MPI, and only under a launcher: a process started by hand never calls MPI. One World per process,
// constructed before its groups and destroyed after them, on one thread; MPI is called by one
// thread at a time (MPI_THREAD_SERIALIZED).
class World {
 public:
  // Default buffer size of a group.
  static constexpr std::size_t kBufferBytes = comm::kHostBufferBytes;

  // Sets the variables of gpu_environment.h that the user has not set. Throws EnvironmentError if
  // ranks were launched that MPI cannot join.
  explicit World(const Variables& variables);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  // Waits for all ranks. During stack unwinding it aborts them instead, as
  // abort(ExitCode::kInternal): they may be waiting for this rank elsewhere.
  ~World();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Rank among the ranks that share this rank's memory, as found by MPI.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  // Host name of every rank.
  const std::vector<std::string>& hosts() const { return hosts_; }

  // The flight recorder of this rank; records the calls of all groups.
  FlightRecorder& recorder() { return recording_.recorder; }
  // Registers an observer of the calls of all groups; null removes it.
  void observe(CommunicationObserver* observer) { recording_.observer = observer; }

  // Enables tensors of this rank's device in groups, in addition to host tensors: over NCCL if it
  // is built in and every rank has a GPU of its own, otherwise over MPI through pinned memory.
  // Collective. Called before the first split; not needed for the CPU. Throws EnvironmentError on
  // all ranks if only some have a GPU. `reproducible`: sums have the same bits for any number of
  // ranks over NCCL too, by NcclGroups' ordered sums; over MPI they always do.
  void use_device(Device device, bool reproducible = false);
  // World ranks that share this rank's device, including this one; for the CPU, those that share
  // this rank's memory.
  int ranks_on_device() const { return ranks_on_device_; }
  // Transport between ranks, for display: "MPI", "NCCL 2.28.9".
  const std::string& transport() const { return transport_; }

  // Creates the group of `ranks`, in this order; `name` is used in messages. Collective over the
  // world: every rank passes the ranks of its own group, and the groups partition the world. A
  // group of size 1 allocates no buffer, and its calls are not recorded.
  std::unique_ptr<Communicator> split(const std::string& name, const std::vector<int>& ranks,
                                      std::size_t buffer_bytes = kBufferBytes,
                                      Messages messages = Messages::kNone);

  // Allocates `bytes` of memory that the ranks of a host map into each other; `bytes` may differ by
  // rank. Null on all ranks of a host that cannot share memory, and on a rank that is alone on its
  // host. Collective over the world. Groups whose ranks are all on one host, split before or after,
  // reduce and gather tensors in it by direct reads, asynchronously if requested. It counts as
  // `bytes` of this rank's memory. The world outlives it, and it outlives the calls that use it.
  std::unique_ptr<SharedMemory> share(std::size_t bytes);

  // Leaves the world in order, once all ranks have called it; the destructor then does nothing. No
  // group may be used afterwards.
  void finalize();

  // Aborts every rank of the world; this process exits with `code`, which mpirun returns too.
  [[noreturn]] void abort(ExitCode code);

 private:
  void find_neighbours();
  std::vector<std::string> gpus_of_all() const;
  // Host indices of `ranks`; empty if some are on other hosts.
  std::vector<int> local_ranks_of(const std::vector<int>& ranks) const;

  Recording recording_;
  comm::SharedMemories memories_;
  int group_ = 0;  // the world group in the flight recorder
  bool has_mpi_ = false;
  int exceptions_ = 0;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::vector<std::string> hosts_;
  std::vector<int> local_ranks_;  // host index of every rank; -1 for ranks on other hosts
  Device device_;
  int ranks_on_device_ = 1;
  std::string transport_ = "MPI";
  std::unique_ptr<NcclGroups> nccl_;
};

}  // namespace trireme
