#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/supervise/link/sealed_link.h"
#include "trainer/supervise/node_agent/control_message.h"
#include "trainer/supervise/node_agent/started_process.h"

namespace trireme {

// Health of a node, as seen by the supervisor.
enum class NodeHealth : std::uint8_t {
  kStarting,  // its agent has not connected yet
  kHealthy,
  kLost,  // no heartbeat; its agent is restarted every few seconds
};

struct NodeReport {
  std::string name;
  NodeHealth health = NodeHealth::kStarting;
  std::string why = {};                 // if it is lost
  double heard = 0;                     // time of the agent's last message, by seconds_now()
  std::int64_t agent = 0;               // process id
  std::uint64_t shm_free = 0;           // free bytes in /dev/shm
  std::int64_t clock_ms = 0;            // clock offset of the node, milliseconds ahead of this host
  std::vector<std::int64_t> pids = {};  // process ids of its ranks
  std::uint64_t stopped = 0;            // number of its ranks that are stopped (SIGSTOP)
};

// The supervisor's agents, one on each node: starts them, receives their heartbeats, tracks which
// nodes are healthy, and kills the ranks on all nodes on request. The port accepts only peers that
// have the run's token, and keeps working whatever unauthenticated peers send. Single-threaded; no
// call blocks longer than documented. The owner must call poll() at least every few seconds: agents
// that receive nothing for AgentOptions::patience_s kill the ranks.
class Agents {
 public:
  struct Options {
    double node_timeout_s = 3;  // seconds without a heartbeat until a node is lost
    double restart_s = 5;       // minimum seconds between two starts of a lost node's agent
    // Seconds until the first agent of a node is replaced if it has not connected: about one of
    // some hundred srun steps never starts.
    double first_try_s = 15;
    // Host names or addresses of the nodes, if they differ from the node names.
    std::vector<std::string> addresses = {};
  };
  struct Change {
    std::string node;
    NodeHealth health;
    std::string why;
  };
  // Returns the command prefix that starts a program on a node; empty for the local host. The
  // agent's command line follows it.
  using Launcher = std::function<std::vector<std::string>(const std::string& node)>;

  // Listens on the network that reaches the nodes. Throws EnvironmentError.
  Agents(std::filesystem::path run_dir, const std::vector<std::string>& nodes, Launcher launcher,
         Options options);
  // Dismisses the agents, and kills those that have not exited after a few seconds.
  ~Agents();
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  // Receives pending messages, waiting at most `seconds`.
  void poll(double seconds);
  // Waits at most `seconds` until the agent of every node has connected or is lost.
  void wait_for_all(double seconds);
  const std::vector<NodeReport>& nodes() const { return reports_; }
  std::vector<std::string> healthy() const;
  // Changes since the last call.
  std::vector<Change> take_changes();
  // A signal that an agent received since the last call, or 0.
  int take_signal();

  // Environment variable "NAME=value" that only the processes of the run's ranks have.
  std::string mark() const { return token_.mark(); }
  // Kills all processes with the mark on every node. Returns when each agent has confirmed it or is
  // lost: healthy nodes then have none left. A node whose processes cannot be killed within
  // `seconds` is lost.
  void end_everywhere(double seconds);

  std::uint16_t port() const { return listener_.port(); }

 private:
  using Kind = ControlMessage::Kind;
  struct Connection {
    Connection(const RunToken& token, Socket socket)
        : link(SealedStream::End::kAccepts, token, std::move(socket)) {}
    MessageLink<ControlMessage> link;
    double since = 0;
    int node = -1;  // unknown
    bool is_over = false;
  };
  struct Node {
    std::unique_ptr<StartedProcess> process;  // the agent, or the launcher that starts it
    double started = 0;
    int starts = 0;
    bool is_given_up = false;  // the process was killed before its agent connected
    bool is_connected = false;
    std::uint64_t ended = 0;  // number of the last order that the agent carried out
  };

  void start_agents();
  void start_agent(std::size_t index);
  void sleep(double seconds);
  void accept();
  void exchange(Connection& connection);
  void on_hello(Connection& connection, const ControlMessage& message);
  void on_message(Connection& connection, const ControlMessage& message);
  void on_ended(std::size_t index, const ControlMessage& message);
  void drop(Connection& connection);
  void drop_node(std::size_t index);
  void look_at(std::size_t index, double now);
  void change(std::size_t index, NodeHealth health, const std::string& why);
  void order_kill(Connection& connection);
  bool is_live(std::size_t index) const;

  std::filesystem::path run_dir_;
  Launcher launcher_;
  Options options_;
  RunToken token_;
  std::string place_;  // address of the listener, HOST:PORT
  Socket listener_;
  std::vector<NodeReport> reports_;
  std::vector<Node> nodes_;  // same order as reports_
  std::list<Connection> connections_;
  std::vector<Change> changes_;
  std::uint64_t order_ = 1;  // newest order; an agent starts with the first
  int signal_ = 0;
  double polled_ = 0;
};

}  // namespace trireme
