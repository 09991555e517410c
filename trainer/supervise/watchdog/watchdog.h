#pragma once
#include <optional>
#include <string>
#include <thread>

#include "parallel/comm/world.h"
#include "trainer/supervise/watchdog/watch.h"

namespace trireme {

// Monitors the ranks of a world for the lifetime of the object: if one is lost, stops, hangs or
// fails, all exit with a one-line verdict (Watch). Created and destroyed by the rank's main thread;
// monitoring runs on a thread of its own.
class Watchdog {
 public:
  // Collective. If a rank cannot connect to the leaders, rank 0 logs a warning and there is no
  // monitoring.
  Watchdog(World& world, const WatchOptions& options);
  // This rank has finished.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  bool watches() const { return thread_.joinable(); }
  // Reports a failure of this rank, its own or caused by a peer (kPeerFailed), and exits the
  // process with `code`, and all others. Requires watches().
  [[noreturn]] void fail(RankHealth health, const std::string& words, ExitCode code) {
    watch_->fail(health, words, code);
  }

 private:
  void stop();

  std::optional<Watch> watch_;
  std::thread thread_;
};

}  // namespace trireme
