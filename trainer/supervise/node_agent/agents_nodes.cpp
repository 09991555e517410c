#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "model/base/error.h"
#include "trainer/supervise/node_agent/agents.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

// Seconds from an agent's start until it must have connected.
constexpr double kConnectLimitS = 60;
// Maximum seconds between two starts on a node that has been lost for long.
constexpr double kLongestRest = 60;
// Lifetime of the launcher of an agent after the supervisor is gone: if the node and Slurm are gone
// too, it would never exit.
constexpr int kOutlivesUsS = 30;
// Seconds since the last message within which an agent needs no replacement.
constexpr double kLive = 1;

}  // namespace

void Agents::start_agents() {
  const double now = seconds_now();
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    Node& node = nodes_[index];
    if (node.is_connected) continue;
    if (node.process && !node.process->ended()) {
      const bool is_first = reports_[index].health == NodeHealth::kStarting && node.starts == 1;
      const bool is_stuck = now - node.started > (is_first ? options_.first_try_s : kConnectLimitS);
      if (is_stuck && (is_first || reports_[index].health == NodeHealth::kLost)) {
        node.process->signal_group(SIGKILL);
        node.is_given_up = true;
      }
      continue;
    }
    // Immediately if an agent has connected since the last start.
    const bool was_tried = node.started > reports_[index].heard;
    const double since_heard = now - reports_[index].heard;
    const double rest = std::clamp(since_heard / 10, options_.restart_s, kLongestRest);
    if (was_tried && now - node.started < rest) continue;
    start_agent(index);
  }
}

void Agents::start_agent(std::size_t index) {
  const std::string& name = reports_[index].name;
  std::vector<std::string> words = launcher_(name);
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  words.insert(words.end(),
               {program, "agent", "--run-dir", run_dir_, "--supervisor", place_, "--node", name});
  Node& node = nodes_[index];
  node.started = seconds_now();
  ++node.starts;
  node.is_given_up = false;
  node.process.reset();
  try {
    node.process = std::make_unique<StartedProcess>(
        words,
        StartedProcess::Options{.output = run_dir_ / "agents.log", .outlives_us_s = kOutlivesUsS});
  } catch (const EnvironmentError& error) {
    if (reports_[index].health != NodeHealth::kLost) {
      change(index, NodeHealth::kLost, error.what());
    }
  }
}

void Agents::look_at(std::size_t index, double now) {
  const Node& node = nodes_[index];
  const NodeReport& report = reports_[index];
  const double silent = now - report.heard;
  switch (report.health) {
    case NodeHealth::kHealthy: {
      // The replacement of an agent whose connection broke failed to start.
      const bool cannot_start = !node.is_connected && node.started > report.heard && node.process &&
                                node.process->ended().value_or(0) != 0;
      if (cannot_start) {
        change(index, NodeHealth::kLost, "connection lost and no agent can be started there");
      } else if (silent > options_.node_timeout_s) {
        change(index, NodeHealth::kLost,
               fmt::format("{} for {:.1f} s",
                           node.is_connected ? "no heartbeat" : "connection lost", silent));
      }
      break;
    }
    case NodeHealth::kStarting:
      if (!node.is_connected && node.process && node.process->ended() && !node.is_given_up) {
        change(index, NodeHealth::kLost,
               fmt::format("its agent failed to start (exit code {}, see agents.log)",
                           *node.process->ended()));
      } else if (silent > kConnectLimitS) {
        change(index, NodeHealth::kLost,
               fmt::format("its agent did not connect within {} s", kConnectLimitS));
      }
      break;
    case NodeHealth::kLost:
      if (node.is_connected && silent > options_.node_timeout_s) drop_node(index);
      break;
  }
}

void Agents::drop_node(std::size_t index) {
  for (Connection& connection : connections_) {
    if (connection.node == static_cast<int>(index)) drop(connection);
  }
}

void Agents::change(std::size_t index, NodeHealth health, const std::string& why) {
  Node& node = nodes_[index];
  reports_[index].health = health;
  reports_[index].why = why;
  changes_.push_back({reports_[index].name, health, why});
  if (health != NodeHealth::kLost) return;
  // A returning node gets a new agent, which starts by killing what is left.
  drop_node(index);
  node.ended = 0;
  if (node.process && !node.process->ended()) node.process->signal_group(SIGKILL);
}

void Agents::on_ended(std::size_t index, const ControlMessage& message) {
  if (!message.pids.empty()) {
    change(index, NodeHealth::kLost,
           fmt::format("process {} cannot be killed there", message.pids.front()));
    return;
  }
  nodes_[index].ended = message.order;
  if (message.order < order_ || reports_[index].health == NodeHealth::kHealthy) return;
  change(index, NodeHealth::kHealthy, "");
}

void Agents::order_kill(Connection& connection) {
  connection.link.send({.kind = Kind::kEnd, .mark = mark(), .order = order_});
}

void Agents::end_everywhere(double seconds) {
  ++order_;
  for (Connection& connection : connections_) {
    if (connection.node >= 0) order_kill(connection);
  }
  const double end = seconds_now() + seconds;
  const auto owes = [this](std::size_t index) {
    return reports_[index].health == NodeHealth::kHealthy && nodes_[index].ended < order_;
  };
  for (;;) {
    poll(0.02);
    bool is_owed = false;
    for (std::size_t index = 0; index < nodes_.size(); ++index) {
      if (!owes(index)) continue;
      is_owed = true;
      if (seconds_now() > end) change(index, NodeHealth::kLost, "its ranks cannot be killed");
    }
    if (!is_owed) return;
  }
}

void Agents::wait_for_all(double seconds) {
  const double end = seconds_now() + seconds;
  const auto is_starting = [](const NodeReport& report) {
    return report.health == NodeHealth::kStarting;
  };
  while (std::any_of(reports_.begin(), reports_.end(), is_starting) && seconds_now() < end) {
    poll(0.05);
  }
}

bool Agents::is_live(std::size_t index) const {
  return nodes_[index].is_connected && seconds_now() - reports_[index].heard < kLive;
}

std::vector<std::string> Agents::healthy() const {
  std::vector<std::string> names;
  for (const NodeReport& report : reports_) {
    if (report.health == NodeHealth::kHealthy) names.push_back(report.name);
  }
  return names;
}

std::vector<Agents::Change> Agents::take_changes() {
  return std::exchange(changes_, {});
}

int Agents::take_signal() {
  return std::exchange(signal_, 0);
}

}  // namespace trireme
