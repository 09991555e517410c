#pragma once
#include <optional>
#include <string>
#include <thread>

#include "parallel/comm/world.h"
#include "trainer/supervise/watchdog/watch.h"

namespace trireme {

// Watches over the ranks of a world of several while it lives: when one is lost, stops,
// hangs or fails, all of them end, told why in one line (Watch). Made and destroyed on the
// rank's own thread; the watching is another's.
class Watchdog {
 public:
  // Collective. Where ranks cannot reach those that lead, rank 0 warns and nobody is
  // watched.
  Watchdog(World& world, const WatchOptions& options);
  // This rank's part is done.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  bool watches() const { return thread_.joinable(); }
  // This rank's part has failed, by itself or because of another (kPeerFailed): ends the
  // process with `code`, and the others. Only where it watches.
  [[noreturn]] void fail(RankHealth health, const std::string& words, ExitCode code) {
    watch_->fail(health, words, code);
  }

 private:
  void stop();

  std::optional<Watch> watch_;
  std::thread thread_;
};

}  // namespace trireme
