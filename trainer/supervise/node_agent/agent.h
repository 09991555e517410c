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
  std::filesystem::path run_dir;  // holds the token
  std::string node;               // its name, as the supervisor knows it
  NetworkPlace supervisor;
  double beat_s = 0.5;
  // Without a word of the supervisor for so long it ends the ranks of its node and itself.
  double patience_s = 10;
};

// What a supervisor has on each node beside the ranks, and which outlives them: says that the
// node lives and what runs there, ends what is left of an incarnation when told to, passes on
// signals that only a job step's tasks are sent (Slurm's at a preemption), and sees to it that no
// rank outlives a supervisor that was lost. It knows ranks by the mark in their environment.
class Agent {
 public:
  // Throws EnvironmentError where the token cannot be read or the host is not known.
  explicit Agent(AgentOptions options);
  // Returns once the supervisor needs it no more, or kPeer once it is lost.
  ExitCode run();

 private:
  using Kind = ControlMessage::Kind;
  void connect();
  void wait() const;
  void exchange();
  void on_message(const ControlMessage& message);
  void end_ranks(const ControlMessage& order);
  void beat();
  void tell_signal(int signal);

  AgentOptions options_;
  RunToken token_;
  std::string slurm_node_;  // as a variable; empty outside Slurm
  std::vector<std::uint32_t> addresses_;
  std::size_t tries_ = 0;  // each with another address
  std::optional<MessageLink<ControlMessage>> link_;
  std::string mark_;  // empty: not told yet
  double tried_ = 0;  // when it connected last
  double heard_ = 0;  // the supervisor's last word
  double next_beat_ = 0;
  bool has_greeted_ = false;
  int signal_told_ = 0;
  bool leaves_ = false;
};

}  // namespace trireme
