#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// What a supervisor and the agent of a node tell each other: one JSON object each.
struct ControlMessage {
  enum class Kind : std::uint8_t {
    kHello,    // agent's first: node, pid
    kBeat,     // agent lives: unix_ms, shm_free, pids (of the ranks on its node), stopped
    kSignal,   // agent was sent one: signal
    kEnded,    // agent has carried out an order: order, pids (that could not be ended)
    kWelcome,  // supervisor's first: mark (a word of the ranks' environment, "NAME=value")
    kHeard,    // supervisor lives, and has heard a beat
    kEnd,      // supervisor's order to end all ranks of the node: order, mark
    kLeave,    // the agent is needed no more
  };
  static constexpr std::size_t kMostNameBytes = 256;
  static constexpr std::size_t kMostPids = 4096;

  Kind kind = Kind::kHeard;
  std::string node = {};
  std::string mark = {};
  std::int64_t pid = 0;
  std::int64_t unix_ms = 0;    // by the node's clock
  std::uint64_t shm_free = 0;  // bytes that /dev/shm has left
  std::uint64_t order = 0;
  int signal = 0;
  std::uint64_t stopped = 0;  // how many of the processes somebody has stopped (SIGSTOP)
  std::vector<std::int64_t> pids = {};

  std::string encoded() const;
  // Throws Error where it is none.
  static ControlMessage decoded(std::string_view text);
};

// By this machine's clock.
std::int64_t unix_ms_now();

}  // namespace trireme
