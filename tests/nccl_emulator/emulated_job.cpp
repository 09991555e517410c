#include "tests/nccl_emulator/emulated_job.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace trireme::test {

void HostGroups::Fibers::wait(std::unique_lock<std::mutex>& guard,
                              const std::function<bool()>& until) {
  guard.unlock();
  if (!until()) emulator::wait_until(until, say("the hosts of '", name_, "'"));
  guard.lock();
}

std::unique_ptr<Communicator> HostGroups::group(const std::string& name,
                                                const std::vector<int>& ranks) {
  if (ranks.size() == 1) return std::make_unique<SelfCommunicator>();
  auto& group = groups_[{name, ranks}];
  if (!group) group = std::make_unique<Fibers>(static_cast<int>(ranks.size()), name);
  const auto own = std::find(ranks.begin(), ranks.end(), emulator::job_rank()) - ranks.begin();
  return std::make_unique<ThreadCommunicator>(*group, static_cast<int>(own));
}

void run_emulated(const EmulatedJob& options, const std::function<void(EmulatedRank&)>& body) {
  HostGroups hosts;
  emulator::run_job(options.job, [&](int rank) {
    const Device device{Device::Kind::kCuda, rank};
    const std::unique_ptr<NcclGroups> nccl = NcclGroups::create(device, options.nccl);
    EmulatedRank own{rank, device, hosts, *nccl};
    body(own);
  });
}

std::uint64_t schedules(std::uint64_t usual) {
  return std::getenv("TRIREME_THOROUGH") != nullptr ? 10000 : usual;
}

std::uint64_t first_seed() {
  const char* const seed = std::getenv("TRIREME_SEED");
  return seed != nullptr ? std::stoull(seed) : 1;
}

}  // namespace trireme::test
