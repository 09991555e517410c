#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "trainer/supervise/link/network.h"
#include "trainer/supervise/link/sealed_link.h"
#include "trainer/supervise/node_agent/control_message.h"

namespace trireme {

struct AgentOptions {
  std::filesystem::path run_dir;  // contains the control token
  std::string node;               // name of the node, as used by the supervisor
  HostPort supervisor;
  double beat_s = 0.5;
  // The agent kills the ranks of its node and exits after this many seconds without a message from
  // the supervisor.
  double patience_s = 10;
};

// The supervisor's agent on one node. It outlives the ranks: it reports that the node is alive and
// which ranks run there, kills what is left of an incarnation on request, forwards signals that
// Slurm sends only to the tasks of a job step (preemption), and kills the ranks if the supervisor
// is lost. It identifies ranks by the mark in their environment.
class Agent {
 public:
  // Throws EnvironmentError if the token cannot be read or the supervisor's host name cannot be
  // resolved.
  explicit Agent(AgentOptions options);
  // Returns kDone when the supervisor dismisses the agent, or kPeer when the supervisor is lost.
  ExitCode run();

 private:
  using Kind = ControlMessage::Kind;
  void connect();
  void wait() const;
  void exchange();
  void on_message(const ControlMessage& message);
  void end_ranks(const ControlMessage& order);
  void beat();
  void report_signal(int signal);

  AgentOptions options_;
  RunToken token_;
  std::string slurm_node_;  // "NAME=value"; empty outside Slurm
  std::vector<std::uint32_t> addresses_;
  std::size_t tries_ = 0;  // each uses the next address
  std::optional<MessageLink<ControlMessage>> link_;
  std::string mark_;  // empty: not received yet
  double tried_ = 0;  // time of the last connection attempt
  double heard_ = 0;  // time of the supervisor's last message
  double next_beat_ = 0;
  bool has_greeted_ = false;
  int reported_signal_ = 0;
  bool leaves_ = false;
};

}  // namespace trireme
