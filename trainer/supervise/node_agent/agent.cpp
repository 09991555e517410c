#include "trainer/supervise/node_agent/agent.h"

#include <poll.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "parallel/comm/launcher.h"
#include "trainer/supervise/node_agent/own_processes.h"
#include "trainer/supervise/watchdog/process_state.h"
#include "trainer/supervise/watchdog/signals.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

constexpr double kRetryS = 0.25;
// Seconds to wait for a connection before the next address is tried.
constexpr double kConnectTimeoutS = 3;

std::uint64_t shm_free() {
  struct statvfs facts {};
  if (::statvfs("/dev/shm", &facts) != 0) return 0;
  return std::uint64_t{facts.f_bavail} * facts.f_frsize;
}

// Distinguishes nodes of a Slurm cluster that run on one machine.
std::string own_slurm_node() {
  const auto name = environment_variable("SLURMD_NODENAME");
  return name ? "SLURMD_NODENAME=" + *name : std::string();
}

// The processes that have the mark, without their child processes (checkpoint writers).
std::vector<pid_t> ranks_of(const std::string& mark, const std::string& slurm_node) {
  const std::vector<pid_t> all = processes_with(mark, slurm_node);
  std::vector<pid_t> ranks;
  std::copy_if(all.begin(), all.end(), std::back_inserter(ranks), [&](pid_t process) {
    return std::find(all.begin(), all.end(), parent_of_process(process)) == all.end();
  });
  return ranks;
}

std::vector<std::int64_t> numbers(const std::vector<pid_t>& processes) {
  return {processes.begin(), processes.end()};
}

}  // namespace

Agent::Agent(AgentOptions options)
    : options_(std::move(options)),
      token_(RunToken::read(options_.run_dir)),
      slurm_node_(own_slurm_node()),
      addresses_(addresses_of(options_.supervisor.host)),
      heard_(seconds_now()) {
  if (addresses_.empty()) {
    throw EnvironmentError(say("cannot resolve the supervisor's host ", options_.supervisor.host,
                               " on ", options_.node));
  }
}

ExitCode Agent::run() {
  const StopSignals signals;
  double last = seconds_now();
  while (!leaves_) {
    connect();
    wait();
    const double now = seconds_now();
    // Time during which this process was stopped does not count as silence of the supervisor.
    if (now - last > options_.patience_s / 2) heard_ += now - last;
    last = now;
    exchange();
    if (signals.asked() != reported_signal_) report_signal(signals.asked());
    if (now >= next_beat_) beat();
    if (now - heard_ > options_.patience_s) {
      if (!mark_.empty()) end_processes(mark_, slurm_node_);
      sweep_segments();
      std::fprintf(stderr, "trireme: the agent of %s lost its supervisor and kills its ranks\n",
                   options_.node.c_str());
      return ExitCode::kPeer;
    }
  }
  return ExitCode::kDone;
}

void Agent::connect() {
  const double now = seconds_now();
  if (link_) {
    const bool is_stuck = !link_->is_trusted() && now - tried_ > kConnectTimeoutS;
    if (link_->is_open() && !is_stuck) return;
    link_.reset();
  }
  if (now - tried_ < kRetryS) return;
  tried_ = now;
  has_greeted_ = false;
  Socket socket =
      Socket::connect(addresses_[tries_++ % addresses_.size()], options_.supervisor.port);
  if (socket.is_open()) link_.emplace(SealedStream::End::kConnects, token_, std::move(socket));
}

void Agent::wait() const {
  const double until = link_ ? next_beat_ : tried_ + kRetryS;
  const double left = std::clamp(until - seconds_now(), 0.0, options_.beat_s);
  pollfd awaited{-1, POLLIN, 0};
  if (link_) {
    awaited.fd = link_->descriptor();
    if (link_->has_unsent()) awaited.events |= POLLOUT;
  }
  ::poll(&awaited, 1, static_cast<int>(left * 1000) + 1);
}

void Agent::exchange() {
  if (!link_) return;
  link_->flush();
  link_->receive();
  if (link_->is_greeted() && !has_greeted_) {
    has_greeted_ = true;
    link_->send({.kind = Kind::kHello, .node = options_.node, .pid = ::getpid()});
  }
  while (const auto message = link_->take()) on_message(*message);
}

void Agent::on_message(const ControlMessage& message) {
  heard_ = seconds_now();
  switch (message.kind) {
    case Kind::kWelcome:
      mark_ = message.mark;
      next_beat_ = 0;
      break;
    case Kind::kEnd:
      mark_ = message.mark;
      end_ranks(message);
      break;
    case Kind::kLeave:
      leaves_ = true;
      break;
    case Kind::kHeard:
    case Kind::kHello:
    case Kind::kBeat:
    case Kind::kSignal:
    case Kind::kEnded:
      break;
  }
}

void Agent::end_ranks(const ControlMessage& order) {
  const auto left = end_processes(order.mark, slurm_node_);
  sweep_segments();
  link_->send({.kind = Kind::kEnded, .order = order.order, .pids = numbers(left)});
}

void Agent::beat() {
  next_beat_ = seconds_now() + options_.beat_s;
  if (!link_ || mark_.empty() || !link_->is_trusted()) return;
  const std::vector<pid_t> ranks = ranks_of(mark_, slurm_node_);
  const auto stopped = std::count_if(ranks.begin(), ranks.end(), [](pid_t rank) {
    return state_of_process(rank) == ProcessState::kStopped;
  });
  link_->send({.kind = Kind::kBeat,
               .unix_ms = unix_ms_now(),
               .shm_free = shm_free(),
               .stopped = static_cast<std::uint64_t>(stopped),
               .pids = numbers(ranks)});
}

void Agent::report_signal(int signal) {
  if (link_ && link_->is_trusted()) {
    link_->send({.kind = Kind::kSignal, .signal = signal});
    reported_signal_ = signal;
  }
}

}  // namespace trireme
