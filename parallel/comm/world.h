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

class NcclWorld;

// Whether the ranks of a group send each other messages, beside what they do together.
enum class Messages : std::uint8_t { kNone, kSent };

// The processes one launcher started together (MPI_COMM_WORLD), or this one alone.
// MPI is started and ended here, and only where a launcher wired ranks up: a program
// started by hand never meets it. One World per process, made before its groups and
// destroyed after them, on one thread; MPI is called by one thread at a time.
class World {
 public:
  // What each group takes for messages on their way, unless told otherwise.
  static constexpr std::size_t kBufferBytes = comm::kHostBufferBytes;

  // Throws EnvironmentError when ranks were launched that MPI cannot join.
  explicit World(const Variables& variables);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  // Waits for all ranks to come here. Where an exception is on its way it ends them all
  // instead, as abort(ExitCode::kInternal): the others may wait for this one elsewhere.
  ~World();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Among the ranks that share this rank's memory, found out by MPI.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  // The host name of every rank.
  const std::vector<std::string>& hosts() const { return hosts_; }

  // What this rank does, written down as it goes. Calls of all groups enter it.
  Ledger& ledger() { return recording_.ledger; }
  // Told of every call of all groups from now on; null for nobody.
  void observe(CommunicationObserver* observer) { recording_.observer = observer; }

  // From now on groups move tensors of this rank's device as well as the host's: over NCCL
  // where it is built in and every rank has a GPU of its own, else over MPI through pinned
  // memory. Collective. Called before any group is split off; the CPU needs no call. Throws
  // EnvironmentError on all ranks when some have a GPU and others none.
  void use_device(Device device);
  // Of the world, those whose device is this rank's, this one included; of the CPU's, those
  // that share this rank's memory.
  int ranks_on_device() const { return ranks_on_device_; }
  // How tensors travel between ranks, for people: "MPI", "NCCL 2.28.9".
  const std::string& transport() const { return transport_; }

  // The group of `ranks`, in this order, `name`d for messages. Collective over the
  // world: every rank calls it with the ranks of its own group, and the groups cover
  // the world without overlap. A group of one takes no buffer, and its calls, which go
  // nowhere, are not recorded.
  std::unique_ptr<Communicator> split(const std::string& name, const std::vector<int>& ranks,
                                      std::size_t buffer_bytes = kBufferBytes,
                                      Messages messages = Messages::kNone);

  // Memory of `bytes` of this rank, each rank its own number, that the ranks of its host map
  // into each other; null for all of a host where they cannot, and where a rank is alone on
  // its. Collective over the world. Groups whose ranks are all on one host, split off before
  // or after, reduce and gather what lies in it by reading each other's, and may do so beside
  // the caller's work. It is charged like the memory it stands for: bytes of this rank's. The
  // world must outlive it, and it the calls that use it.
  std::unique_ptr<SharedMemory> share(std::size_t bytes);

  // Leaves the others in order, once all ranks have come here; the destructor has then
  // nothing left to do. No group may be used any more.
  void finalize();

  // Ends every rank of the world at once; this process with `code`. mpirun then
  // returns `code` too.
  [[noreturn]] void abort(ExitCode code);

 private:
  void find_neighbours();
  std::vector<std::string> gpus_of_all() const;
  // The places of `ranks` on this host; empty where some are on others.
  std::vector<int> local_ranks_of(const std::vector<int>& ranks) const;

  Recording recording_;
  comm::SharedMemories memories_;
  int group_ = 0;  // the world's own in the ledger
  bool has_mpi_ = false;
  int exceptions_ = 0;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::vector<std::string> hosts_;
  std::vector<int> local_ranks_;  // of every rank on this host; -1 of those on others
  Device device_;
  int ranks_on_device_ = 1;
  std::string transport_ = "MPI";
  std::unique_ptr<NcclWorld> nccl_;
};

}  // namespace trireme
