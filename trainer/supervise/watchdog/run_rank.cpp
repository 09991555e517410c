#include "trainer/supervise/watchdog/run_rank.h"

#include <cstdio>
#include <new>
#include <optional>
#include <string>

#include "trainer/supervise/watchdog/watchdog.h"

namespace trireme {
namespace {

void print_error(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "trireme: error: %s\n", text.c_str());
  std::fflush(stderr);
}

class RankRunner {
 public:
  RankRunner(World& world, const WatchOptions& options) : world_(world), options_(options) {}

  ExitCode run(const std::function<ExitCode()>& part) {
    try {
      watchdog_.emplace(world_, options_);
      return part();
    } catch (const Error& error) {
      if (!error.on_all_ranks()) fail_alone(error.what(), error.code());
      if (world_.rank() == 0) print_error(error.what());
      world_.recorder().close(flight::Ending::kFailed);
      return error.code();
    } catch (const std::bad_alloc&) {
      fail_alone("out of memory", ExitCode::kEnvironment);
    } catch (const std::exception& error) {
      fail_alone(error.what(), ExitCode::kInternal);
    }
  }

 private:
  [[noreturn]] void fail_alone(const std::string& what, ExitCode code) {
    if (watchdog_ && watchdog_->watches()) {
      const bool by_peer = code == ExitCode::kPeer;
      watchdog_->fail(by_peer ? RankHealth::kPeerFailed : RankHealth::kFailed, what, code);
    }
    world_.recorder().close(flight::Ending::kFailed);
    const std::string& host = world_.hosts()[static_cast<std::size_t>(world_.rank())];
    print_error(say("rank ", world_.rank(), " on ", host, ": ", what));
    world_.abort(code);
  }

  World& world_;
  WatchOptions options_;
  std::optional<Watchdog> watchdog_;  // destroyed before the world is finalized
};

ExitCode run_alone(World& world, const std::function<ExitCode()>& part) {
  try {
    const ExitCode code = part();
    world.recorder().close(flight::Ending::kDone);
    return code;
  } catch (...) {
    world.recorder().close(flight::Ending::kFailed);
    throw;
  }
}

}  // namespace

ExitCode run_rank(World& world, const WatchOptions& options,
                  const std::function<ExitCode()>& part) {
  if (world.size() == 1) return run_alone(world, part);
  RankRunner runner(world, options);
  const ExitCode code = runner.run(part);
  world.finalize();
  world.recorder().close(flight::Ending::kDone);
  return code;
}

}  // namespace trireme
