#include "trainer/supervise/launch/slurm_hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "trainer/supervise/launch/run_follower.h"
#include "trainer/telemetry/events_log.h"

namespace trireme {
namespace {

constexpr double kStartFor = 60;
constexpr double kEndFor = 10;
constexpr double kRound = 0.05;
// The watchdogs of the ranks end a failed step themselves, with exit codes that say why (Watch).
// With --kill-on-bad-exit srun would kill the others at the first failure and return that signal,
// so it only kills ranks that are still there after this wait.
constexpr const char* kEndTogether = "--wait=15";

// With Slurm 22.05's default, the tree fence, a rank sometimes leaves MPI_Init before all have
// arrived; the first message to one that is still inside crashes it.
constexpr const char* kFence = "SLURM_PMIX_FENCE=ring";

// Command of a job step on one node that survives faults of other steps.
std::vector<std::string> agent_step(const std::string& node) {
  return {"env",
          "-u",
          "SLURM_NTASKS_PER_NODE",
          "srun",
          "--mpi=none",
          "--overlap",
          "--no-kill",
          "--kill-on-bad-exit=0",
          "--wait=0",
          "--nodes=1",
          "--ntasks=1",
          "--nodelist=" + node};
}

}  // namespace

SlurmHosts::SlurmHosts(std::filesystem::path run_dir, double node_timeout_s,
                       SlurmAllocation allocation)
    : run_dir_(std::move(run_dir)),
      node_timeout_s_(node_timeout_s),
      allocation_(std::move(allocation)) {}

SlurmHosts::~SlurmHosts() {
  if (!server_.joinable()) return;
  server_.request_stop();
  server_.join();
}

void SlurmHosts::start() {
  std::vector<std::string> nodes;
  for (const HostSlots& place : allocation_.places) nodes.push_back(place.host);
  agents_ = std::make_unique<Agents>(
      run_dir_, nodes, agent_step,
      Agents::Options{.node_timeout_s = node_timeout_s_, .addresses = allocation_.addresses});
  agents_->wait_for_all(kStartFor);
  // Only the main thread handles signals.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  server_ = std::jthread([this](const std::stop_token& end) { serve(end); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void SlurmHosts::serve(const std::stop_token& end) {
  while (!end.stop_requested()) {
    {
      const std::lock_guard lock(mutex_);
      agents_->poll(kRound);
      if (const int signal = agents_->take_signal()) ::kill(::getpid(), signal);
    }
    // Gives threads that wait for the lock a chance to take it.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::vector<HostSlots> SlurmHosts::usable() {
  if (!agents_) start();
  record_changes();
  const std::lock_guard lock(mutex_);
  const std::vector<std::string> healthy = agents_->healthy();
  std::vector<HostSlots> places;
  for (const HostSlots& place : allocation_.places) {
    if (std::find(healthy.begin(), healthy.end(), place.host) != healthy.end()) {
      places.push_back(place);
    }
  }
  return places;
}

std::vector<std::string> SlurmHosts::launcher(int ranks, const std::vector<HostSlots>& places,
                                              const std::vector<std::string>& /*names*/) const {
  record_changes();
  std::vector<std::string> words{"env",
                                 "-u",
                                 "SLURM_NTASKS_PER_NODE",
                                 kFence,
                                 "srun",
                                 "--mpi=pmix",
                                 "--overlap",
                                 "--kill-on-bad-exit=0",
                                 kEndTogether,
                                 "--export=ALL," + agents_->mark(),
                                 fmt::format("--ntasks={}", ranks),
                                 "--distribution=arbitrary"};
  if (!allocation_.cpus_per_task.empty()) {
    words.push_back("--cpus-per-task=" + allocation_.cpus_per_task);
  }
  std::string list;  // one entry per rank
  for (const HostSlots& place : places) {
    for (int slot = 0; slot < place.slots && ranks > 0; ++slot, --ranks) {
      list += (list.empty() ? "" : ",") + place.host;
    }
  }
  words.push_back("--nodelist=" + list);
  return words;
}

// --distribution=arbitrary assigns ranks in list order; Slurm's node names may differ from the host
// names.
std::string SlurmHosts::host_of(int rank, const std::string& /*reported*/,
                                const std::vector<HostSlots>& places) const {
  for (const HostSlots& place : places) {
    if (rank < place.slots) return place.host;
    rank -= place.slots;
  }
  return "";
}

bool SlurmHosts::all_ranks_are_stopped(const std::filesystem::path& /*run_dir*/) {
  const std::lock_guard lock(mutex_);
  std::size_t ranks = 0, stopped = 0;
  for (const NodeReport& node : agents_->nodes()) {
    if (node.health != NodeHealth::kHealthy) continue;
    ranks += node.pids.size();
    stopped += node.stopped;
  }
  return ranks > 0 && stopped == ranks;
}

void SlurmHosts::end_everywhere(const std::string& /*mark*/) {
  {
    const std::lock_guard lock(mutex_);
    agents_->end_everywhere(kEndFor);
  }
  record_changes();
}

void SlurmHosts::record_changes() const {
  const std::lock_guard lock(mutex_);
  for (const Agents::Change& change : agents_->take_changes()) {
    const bool was_excluded = excluded_.contains(change.node);
    EventsLog events(run_dir_ / "events.jsonl");
    if (change.health == NodeHealth::kLost && !was_excluded) {
      excluded_.insert(change.node);
      events.record("excluded", newest_step(run_dir_),
                    {{"host", change.node}, {"why", change.why}});
    } else if (change.health == NodeHealth::kHealthy && was_excluded) {
      excluded_.erase(change.node);
      events.record("returned", newest_step(run_dir_), {{"host", change.node}});
    }
  }
}

}  // namespace trireme
