#include "trainer/supervise/node_agent/agents.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "model/base/error.h"
#include "trainer/supervise/link/network.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

// Seconds until a connection that has not authenticated is closed.
constexpr double kPatience = 4;
constexpr std::size_t kMostStrangers = 64;
constexpr int kMostAtOnce = 64;  // new connections per round
// Seconds to wait for a dismissed agent to exit.
constexpr double kLeaveFor = 3;

}  // namespace

Agents::Agents(std::filesystem::path run_dir, const std::vector<std::string>& nodes,
               Launcher launcher, Options options)
    : run_dir_(std::move(run_dir)),
      launcher_(std::move(launcher)),
      options_(std::move(options)),
      token_(RunToken::make(run_dir_)),
      nodes_(nodes.size()),
      polled_(seconds_now()) {
  const std::uint32_t address =
      own_address_towards(options_.addresses.empty() ? nodes : options_.addresses);
  listener_ = Socket::listen(address);
  place_ = say(address_text(address), ":", listener_.port());
  for (const std::string& node : nodes) reports_.push_back({.name = node, .heard = polled_});
  start_agents();
}

Agents::~Agents() {
  for (Connection& connection : connections_) {
    if (connection.link.is_trusted()) connection.link.send({.kind = Kind::kLeave});
  }
  const double end = seconds_now() + kLeaveFor;
  const auto runs = [](const Node& node) { return node.process && !node.process->ended(); };
  while (std::any_of(nodes_.begin(), nodes_.end(), runs) && seconds_now() < end) {
    for (Connection& connection : connections_) connection.link.flush();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const Node& node : nodes_) {
    if (runs(node)) node.process->signal_group(SIGKILL);
  }
}

void Agents::poll(double seconds) {
  start_agents();
  sleep(seconds);
  const double now = seconds_now();
  // Time during which this process was stopped does not count as silence of the agents.
  if (const double slept = now - polled_ - seconds; slept > options_.node_timeout_s / 2) {
    for (NodeReport& report : reports_) report.heard += slept;
  }
  polled_ = now;
  accept();
  for (Connection& connection : connections_) exchange(connection);
  connections_.remove_if([now](const Connection& connection) {
    const bool is_late = connection.node < 0 && now - connection.since > kPatience;
    return connection.is_over || is_late || !connection.link.is_open();
  });
  for (std::size_t index = 0; index < nodes_.size(); ++index) look_at(index, now);
}

void Agents::sleep(double seconds) {
  std::vector<pollfd> awaited{{listener_.descriptor(), POLLIN, 0}};
  for (const Connection& connection : connections_) {
    const bool writes = connection.link.has_unsent();
    awaited.push_back(
        {connection.link.descriptor(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
  }
  ::poll(awaited.data(), awaited.size(), static_cast<int>(std::max(seconds, 0.0) * 1000));
}

// If unauthenticated connections fill the port, the oldest is dropped: an agent authenticates at
// once.
void Agents::accept() {
  for (int come = 0; come < kMostAtOnce; ++come) {
    Socket socket = listener_.accept();
    if (!socket.is_open()) return;
    connections_.emplace_back(token_, std::move(socket));
    connections_.back().since = seconds_now();
    const auto is_stranger = [](const Connection& connection) { return connection.node < 0; };
    const auto strangers = std::count_if(connections_.begin(), connections_.end(), is_stranger);
    if (static_cast<std::size_t>(strangers) > kMostStrangers + nodes_.size()) {
      connections_.erase(std::find_if(connections_.begin(), connections_.end(), is_stranger));
    }
  }
}

void Agents::exchange(Connection& connection) {
  connection.link.flush();
  connection.link.receive();
  while (!connection.is_over) {
    const auto message = connection.link.take();
    if (!message) break;
    if (connection.node < 0) {
      on_hello(connection, *message);
    } else {
      on_message(connection, *message);
    }
  }
  if (!connection.is_over && !connection.link.is_open()) drop(connection);
}

void Agents::on_hello(Connection& connection, const ControlMessage& message) {
  const auto found = std::find_if(reports_.begin(), reports_.end(), [&](const NodeReport& report) {
    return report.name == message.node;
  });
  connection.is_over = true;
  if (message.kind != Kind::kHello || found == reports_.end()) return;
  const auto index = static_cast<std::size_t>(found - reports_.begin());
  // If a node has two agents, the one that responds stays.
  if (is_live(index)) {
    connection.link.send({.kind = Kind::kLeave});
    return;
  }
  drop_node(index);
  connection.is_over = false;
  connection.node = static_cast<int>(index);
  nodes_[index].is_connected = true;
  found->heard = seconds_now();
  found->agent = message.pid;
  connection.link.send({.kind = Kind::kWelcome, .mark = mark()});
  if (nodes_[index].ended < order_) order_kill(connection);
}

void Agents::on_message(Connection& connection, const ControlMessage& message) {
  const auto index = static_cast<std::size_t>(connection.node);
  NodeReport& report = reports_[index];
  report.heard = seconds_now();
  switch (message.kind) {
    case Kind::kBeat:
      report.shm_free = message.shm_free;
      report.pids = message.pids;
      report.stopped = message.stopped;
      report.clock_ms = message.unix_ms - unix_ms_now();
      connection.link.send({.kind = Kind::kHeard});
      break;
    case Kind::kSignal:
      signal_ = message.signal;
      break;
    case Kind::kEnded:
      on_ended(index, message);
      break;
    default:
      drop(connection);  // agents send no other messages
  }
}

void Agents::drop(Connection& connection) {
  connection.is_over = true;
  if (connection.node >= 0) nodes_[static_cast<std::size_t>(connection.node)].is_connected = false;
}

}  // namespace trireme
