#pragma once
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "trainer/supervise/launch/hosts.h"
#include "trainer/supervise/launch/slurm_allocation.h"
#include "trainer/supervise/node_agent/agents.h"

namespace trireme {

// The nodes of a Slurm allocation: each has an agent, a job step of its own that outlives the
// ranks' steps, and each incarnation of the ranks is a step on the nodes whose agents answer. What
// agents are told by Slurm alone (the SIGTERM of a preemption goes to steps) this process is sent,
// too. Nodes that are lost and that return are told in events.jsonl, between two incarnations.
//
// The job is to be submitted with --no-kill, or Slurm ends it with the first node it takes for
// lost. It does so after SlurmdTimeout (300 s unless a site says otherwise): a node that is back
// sooner is used again. One that Slurm 22.05 has set DOWN has left the job for good: no step can
// be started there ("Requested node configuration is not available"), even once it is up again.
class SlurmHosts : public Hosts {
 public:
  SlurmHosts(std::filesystem::path run_dir, double node_timeout_s, SlurmAllocation allocation);
  ~SlurmHosts() override;

  // The first call starts the agents, and waits for them.
  std::vector<HostPlace> usable() override;
  std::vector<std::string> launcher(int ranks, const std::vector<HostPlace>& places,
                                    const std::vector<std::string>& names) const override;
  std::string host_of(int rank, const std::string& reported,
                      const std::vector<HostPlace>& places) const override;
  bool all_ranks_are_stopped(const std::filesystem::path& run_dir) override;
  void end_everywhere(const std::string& mark) override;

 private:
  void start();
  void serve(const std::stop_token& end);
  void record_changes() const;

  std::filesystem::path run_dir_;
  double node_timeout_s_;
  SlurmAllocation allocation_;
  mutable std::mutex mutex_;  // guards the agents
  std::unique_ptr<Agents> agents_;
  mutable std::set<std::string> excluded_;
  std::jthread server_;  // agents are to be heard all the time
};

}  // namespace trireme
