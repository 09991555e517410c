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

// The nodes of a Slurm allocation. Each node has an agent in its own job step, which outlives the
// ranks' steps; each incarnation of the ranks is one step on the nodes whose agents respond.
// Signals that Slurm sends only to job steps (SIGTERM at a preemption) are forwarded by the agents
// to this process. Lost and returned nodes are recorded in events.jsonl between incarnations.
//
// Submit the job with --no-kill; otherwise Slurm ends it with the first node that it considers
// lost, after SlurmdTimeout (default 300 s). A node that is back earlier is used again. A node that
// Slurm 22.05 has set DOWN has left the job for good: no step can be started there ("Requested node
// configuration is not available"), even after it is up again.
class SlurmHosts : public Hosts {
 public:
  SlurmHosts(std::filesystem::path run_dir, double node_timeout_s, SlurmAllocation allocation);
  ~SlurmHosts() override;

  // The first call starts the agents and waits for them.
  std::vector<HostSlots> usable() override;
  std::vector<std::string> launcher(int ranks, const std::vector<HostSlots>& places,
                                    const std::vector<std::string>& names) const override;
  std::string host_of(int rank, const std::string& reported,
                      const std::vector<HostSlots>& places) const override;
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
  std::jthread server_;  // polls the agents continuously
};

}  // namespace trireme
