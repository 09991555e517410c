#pragma once
// The groups of an emulated job: the product's communicators over the emulated NCCL, beside host
// communicators whose ranks are fibers.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/nccl_groups.h"
#include "parallel/comm/self_communicator.h"
#include "tests/cuda_emulator/ranks.h"
#include "tests/parallel/thread_communicator.h"

namespace trireme::test {

// What the ranks of a job share.
class HostGroups {
 public:
  std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& ranks);

 private:
  class Fibers final : public ThreadGroup {
   public:
    Fibers(int size, std::string name) : ThreadGroup(size), name_(std::move(name)) {}

   private:
    void wait(std::unique_lock<std::mutex>& guard, const std::function<bool()>& until) override;
    std::string name_;
  };
  std::map<std::pair<std::string, std::vector<int>>, std::unique_ptr<Fibers>> groups_;
};

// One rank of a job.
struct EmulatedRank {
  int rank;
  Device device;
  HostGroups& hosts;
  NcclGroups& nccl;

  std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& ranks,
                                      Messages messages = Messages::kNone) const {
    return nccl.add_device(hosts.group(name, ranks), ranks, name, messages);
  }
};

struct EmulatedJob {
  emulator::JobOptions job;
  // Small, so that sums take several pieces.
  NcclGroups::Options nccl{.ordered_sums = false, .buffer_bytes = 1024};
};

// Runs body(rank) on every rank of an emulated job.
void run_emulated(const EmulatedJob& options, const std::function<void(EmulatedRank&)>& body);

// Of the schedules of a test: some hundreds, or TRIREME_THOROUGH's ten thousand.
std::uint64_t schedules(std::uint64_t usual);
std::uint64_t first_seed();  // TRIREME_SEED's

}  // namespace trireme::test
