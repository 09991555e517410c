#include "parallel/comm/nccl_world.h"

#include <string>
#include <utility>

#include "parallel/comm/nccl_communicator.h"
#include "parallel/comm/versions.h"

namespace trireme {
namespace {

const std::string& world_name() {
  static const std::string kName = "world";
  return kName;
}

// "2.28.9" of 22809.
std::string text_of(int version) {
  return say(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

class JoinedWorld final : public NcclWorld {
 public:
  JoinedWorld(const ncclUniqueId& id, int rank, int size, Device device)
      : device_(device), line_(id, {"start", world_name(), rank, size}) {}

  std::unique_ptr<Communicator> split(std::unique_ptr<Communicator> host, int color,
                                      const std::string& name, bool messages) override {
    if (host->size() > 1) {
      return std::make_unique<NcclCommunicator>(line_, color, std::move(host), name, device_,
                                                messages);
    }
    const comm::NcclLine none(line_, NCCL_SPLIT_NOCOLOR, 0, {"split", name});
    return host;
  }

 private:
  Device device_;
  comm::NcclLine line_;
};

}  // namespace

std::unique_ptr<NcclWorld> NcclWorld::form(MPI_Comm world, int rank, int size, Device device) {
  const comm::CallSite site{"start", world_name(), rank, size};
  const Stream current(device);  // sets the current device of this thread
  ncclUniqueId id{};
  const ncclResult_t made = rank == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
  int failed = made == ncclSuccess ? 0 : 1;
  comm::check(MPI_Bcast(&failed, 1, MPI_INT, 0, world), site);
  if (failed != 0) {
    throw EnvironmentError(say("NCCL cannot be initialized: ", ncclGetLastError(nullptr)));
  }
  comm::check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, world), site);
  return std::make_unique<JoinedWorld>(id, rank, size, device);
}

namespace comm {

NcclVersion nccl_version() {
  int running = 0;
  ncclGetVersion(&running);
  return {text_of(NCCL_VERSION_CODE), text_of(running)};
}

}  // namespace comm
}  // namespace trireme
