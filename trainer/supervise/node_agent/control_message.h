#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// A message between a supervisor and the agent of a node, encoded as one JSON object.
struct ControlMessage {
  enum class Kind : std::uint8_t {
    kHello,    // first message of the agent: node, pid
    kBeat,     // heartbeat of the agent: unix_ms, shm_free, pids of the node's ranks, stopped
    kSignal,   // the agent received a signal: signal
    kEnded,    // the agent carried out an order: order, pids that could not be killed
    kWelcome,  // first message of the supervisor: mark (environment variable of the ranks)
    kHeard,    // the supervisor confirms a heartbeat
    kEnd,      // the supervisor orders the node's ranks to be killed: order, mark
    kLeave,    // the supervisor dismisses the agent
  };
  static constexpr std::size_t kMaxNameBytes = 256;
  static constexpr std::size_t kMaxPids = 4096;

  Kind kind = Kind::kHeard;
  std::string node = {};
  std::string mark = {};
  std::int64_t pid = 0;
  std::int64_t unix_ms = 0;    // by the clock of the node
  std::uint64_t shm_free = 0;  // free bytes in /dev/shm
  std::uint64_t order = 0;
  int signal = 0;
  std::uint64_t stopped = 0;  // number of the processes that are stopped (SIGSTOP)
  std::vector<std::int64_t> pids = {};

  std::string encoded() const;
  // Throws Error for an invalid message.
  static ControlMessage decoded(std::string_view text);
};

// Milliseconds since 1970 by the clock of this host.
std::int64_t unix_ms_now();

}  // namespace trireme
