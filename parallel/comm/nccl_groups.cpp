#include "parallel/comm/nccl_groups.h"

#include <map>
#include <string>
#include <utility>

#include "parallel/comm/nccl_communicator.h"
#include "parallel/comm/nccl_ranks.h"
#include "parallel/comm/versions.h"

namespace trireme {
namespace {

// "2.28.9" of 22809.
std::string text_of(int version) {
  return say(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

class DeviceGroups final : public NcclGroups {
 public:
  DeviceGroups(Device device, const Options& options) : device_(device), options_(options) {}

  std::unique_ptr<Communicator> add_device(std::unique_ptr<Communicator> host,
                                           const std::vector<int>& ranks, const std::string& name,
                                           Messages messages) override {
    if (host->size() == 1) return host;
    // The members of a set have formed the same groups, so all find it or none does.
    std::shared_ptr<comm::NcclRanks> shared = known_[ranks].lock();
    const bool is_first = shared == nullptr;
    if (is_first) {
      shared = std::make_shared<comm::NcclRanks>(*host, name, device_, options_);
      known_[ranks] = shared;
    }
    if (messages == Messages::kExchanged) {
      shared->connect_pairs({"connect", name, host->rank(), host->size()});
    }
    return std::make_unique<NcclCommunicator>(std::move(shared), std::move(host), name, is_first,
                                              messages == Messages::kSent);
  }

 private:
  Device device_;
  Options options_;
  std::map<std::vector<int>, std::weak_ptr<comm::NcclRanks>> known_;
};

}  // namespace

std::unique_ptr<NcclGroups> NcclGroups::create(Device device, const Options& options) {
  return std::make_unique<DeviceGroups>(device, options);
}

namespace comm {

NcclVersion nccl_version() {
  int running = 0;
  ncclGetVersion(&running);
  return {text_of(NCCL_VERSION_CODE), text_of(running)};
}

}  // namespace comm
}  // namespace trireme
