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

// How a supervisor sees a node.
enum class NodeHealth : std::uint8_t {
  kStarting,  // its agent has not yet come
  kHealthy,
  kLost,  // silent for too long; its agent is started anew every few seconds
};

struct NodeReport {
  std::string name;
  NodeHealth health = NodeHealth::kStarting;
  std::string why = {};                 // where it is lost
  double heard = 0;                     // when its agent was last, by seconds_now()
  std::int64_t agent = 0;               // its process
  std::uint64_t shm_free = 0;           // bytes
  std::int64_t clock_ms = 0;            // how far its clock is before this machine's
  std::vector<std::int64_t> pids = {};  // of its ranks
  std::uint64_t stopped = 0;            // how many of them somebody has stopped
};

// A supervisor's agents, one on each node: starts them, hears their beats, knows which nodes are
// healthy and has the ranks of all of them ended. Its port answers nobody who has not the run's
// token, and goes on serving whatever strangers send. One thread; nothing blocks longer than is
// said. Whoever has one must call poll() at least every few seconds: agents that hear nothing for
// AgentOptions::patience_s end the ranks.
class Agents {
 public:
  struct Options {
    double node_timeout_s = 3;  // a node that is silent so long is lost
    double restart_s = 5;       // at least, between two starts of an agent on a node that is lost
    // From a node's first start of an agent until another is started in its place: of srun's steps
    // one in hundreds has been seen not to begin.
    double first_try_s = 15;
    // The hosts by which the nodes are reached, where they are not the nodes' names.
    std::vector<std::string> addresses = {};
  };
  struct Change {
    std::string node;
    NodeHealth health;
    std::string why;
  };
  // The words by which a program is started on a node; empty for this machine. The agent's own
  // come after them.
  using Launcher = std::function<std::vector<std::string>(const std::string& node)>;

  // Listens on the network that reaches the nodes. Throws EnvironmentError.
  Agents(std::filesystem::path run_dir, const std::vector<std::string>& nodes, Launcher launcher,
         Options options);
  // Lets the agents go, and ends within a few seconds what does not.
  ~Agents();
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  // One round: hears what has come, within `seconds` at most.
  void poll(double seconds);
  // Until every node's agent has come or was given up as lost, `seconds` at most.
  void wait_for_all(double seconds);
  const std::vector<NodeReport>& nodes() const { return reports_; }
  std::vector<std::string> healthy() const;
  // What has changed since this was last asked.
  std::vector<Change> take_changes();
  // A signal that an agent was sent since this was last asked, or 0.
  int take_signal();

  // What the environment of the run's ranks must have, "NAME=value", and nothing else's.
  std::string mark() const { return token_.mark(); }
  // Has all processes with the mark ended on every node; returns once each agent has said so or
  // is lost: the nodes that are healthy then have none left. Those that cannot be ended within
  // `seconds` make their node lost.
  void end_everywhere(double seconds);

  std::uint16_t port() const { return listener_.port(); }

 private:
  using Kind = ControlMessage::Kind;
  struct Connection {
    Connection(const RunToken& token, Socket socket)
        : link(SealedStream::End::kAccepts, token, std::move(socket)) {}
    MessageLink<ControlMessage> link;
    double since = 0;
    int node = -1;  // not known yet
    bool is_over = false;
  };
  struct Node {
    std::unique_ptr<StartedProcess> process;  // that starts its agent, or is it
    double started = 0;
    int starts = 0;
    bool is_given_up = false;  // the process, which was killed before its agent came
    bool is_connected = false;
    std::uint64_t ended = 0;  // the last order that was carried out there
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
  void order_end(Connection& connection);
  bool is_live(std::size_t index) const;

  std::filesystem::path run_dir_;
  Launcher launcher_;
  Options options_;
  RunToken token_;
  std::string place_;  // where agents find it, HOST:PORT
  Socket listener_;
  std::vector<NodeReport> reports_;
  std::vector<Node> nodes_;  // in the same order
  std::list<Connection> connections_;
  std::vector<Change> changes_;
  std::uint64_t order_ = 1;  // the newest; the first is what an agent begins with
  int signal_ = 0;
  double polled_ = 0;
};

}  // namespace trireme
