#include "trainer/restart/run_rank.h"

#include <cstdio>
#include <new>
#include <string>

namespace trireme {
namespace {

void tell(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "trireme: error: %s\n", text.c_str());
  std::fflush(stderr);
}

}  // namespace

ExitCode run_rank(World& world, const std::function<ExitCode()>& part) {
  if (world.size() == 1) return part();
  const auto fail_alone = [&](const std::string& what, ExitCode code) {
    const std::string host = world.hosts()[static_cast<std::size_t>(world.rank())];
    tell(say("rank ", world.rank(), " on ", host, ": ", what));
    world.abort(code);
  };
  try {
    return part();
  } catch (const Error& error) {
    if (!error.on_all_ranks()) fail_alone(error.what(), error.code());
    if (world.rank() == 0) tell(error.what());
    return error.code();
  } catch (const std::bad_alloc&) {
    fail_alone("out of memory", ExitCode::kEnvironment);
  } catch (const std::exception& error) {
    fail_alone(error.what(), ExitCode::kInternal);
  }
  return ExitCode::kInternal;  // not reached: abort does not return
}

}  // namespace trireme
